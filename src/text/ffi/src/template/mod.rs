//! Chat templates: minijinja with what Hugging Face's templates expect of Python's Jinja2 and of `transformers`.

mod abi;
mod clock;
mod cycler;
mod dialect;
mod filters;
mod generation;
mod json;
mod macros;
mod methods;
mod output;
mod python;
mod stack;
mod widths;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::abi::Failure;
use generation::Marks;
use output::{Limited, Stop};
use stack::on_deep_stack;

const NAME: &str = "template";
/// Known templates have some thirty thousand bytes.
const TEXT_BYTES_MAX: usize = 1 << 18;

#[derive(Clone, Copy)]
pub struct Limits {
    pub fuel: u64,
    pub output_bytes: usize,
    pub recursion: usize,
    pub time: Duration,
}

pub struct Template {
    environment: Environment<'static>,
    limits: Limits,
    marks: Marks,
}

pub struct Rendered {
    pub text: String,
    /// What `{% generation %}` covers: pairs of code point offsets.
    pub spans: Vec<u32>,
}

impl Template {
    pub fn create(text: &str, limits: Limits) -> Result<Template, Failure> {
        if text.len() > TEXT_BYTES_MAX {
            let size = text.len();
            return Err(Failure::file(format!("template: {size} bytes are over the limit of {TEXT_BYTES_MAX}")));
        }
        on_deep_stack(|| Template::compile(text, limits))
    }

    fn compile(text: &str, limits: Limits) -> Result<Template, Failure> {
        let marks = Marks::new();
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(false).build();
        environment.set_syntax(syntax.map_err(Failure::internal)?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_debug(false);
        environment.set_fuel(Some(limits.fuel));
        environment.set_recursion_limit(limits.recursion);
        environment.set_unknown_method_callback(methods::call);
        minijinja_contrib::add_to_environment(&mut environment);
        python::add_to(&mut environment);
        filters::add_to(&mut environment);
        macros::add_to(&mut environment);
        cycler::add_to(&mut environment);
        environment.add_filter("tojson", json::tojson);
        marks.add_to(&mut environment);
        environment
            .add_template_owned(NAME, dialect::rewrite(text))
            .map_err(|error| Failure::file(describe(&error)))?;
        Ok(Template { environment, limits, marks })
    }

    /// `variables`: a JSON object. `now`: seconds since 1970 of the local wall clock.
    pub fn render(&self, variables: &[u8], now: i64) -> Result<Rendered, Failure> {
        on_deep_stack(|| self.render_here(variables, now))
    }

    fn render_here(&self, variables: &[u8], now: i64) -> Result<Rendered, Failure> {
        let variables: serde_json::Value = serde_json::from_slice(variables).map_err(Failure::internal)?;
        let raised = Arc::new(Mutex::new(None));
        let mut environment = self.environment.clone();
        let raise = Arc::clone(&raised);
        environment.add_function("raise_exception", move |message: String| -> Result<Value, Error> {
            if let Ok(mut slot) = raise.lock() {
                *slot = Some(message);
            }
            Err(Error::new(ErrorKind::InvalidOperation, "raise_exception"))
        });
        environment.add_function("strftime_now", move |format: &str| clock::format(now, format));

        let mut output = Limited::new(self.limits.output_bytes, Instant::now() + self.limits.time);
        let template = environment.get_template(NAME).map_err(Failure::internal)?;
        let result = template.render_captured_to(Value::from(Serde(&variables)), &mut output).map(|_| ());
        if let Err(error) = result {
            let message = raised.lock().ok().and_then(|mut slot| slot.take());
            return Err(self.failure(&error, message, output.stop()));
        }
        let text = String::from_utf8(output.into_bytes()).map_err(Failure::internal)?;
        let (text, spans) = self.marks.remove(text);
        Ok(Rendered { text, spans })
    }

    fn failure(&self, error: &Error, raised: Option<String>, stop: Option<Stop>) -> Failure {
        if let Some(message) = raised {
            return Failure::raised(message);
        }
        let limits = &self.limits;
        if let Some(stop) = stop {
            return Failure::exhausted(match stop {
                Stop::Bytes => format!("template: output is over the limit of {} bytes", limits.output_bytes),
                Stop::Time => format!("template: over the time limit of {} ms", limits.time.as_millis()),
            });
        }
        if error.kind() == ErrorKind::OutOfFuel {
            return Failure::exhausted(format!("template: over the limit of {} steps", limits.fuel));
        }
        if error.detail().is_some_and(|detail| detail.contains("recursion limit")) {
            return Failure::exhausted(format!("template: recursion is over the limit of {}", limits.recursion));
        }
        Failure::argument(describe(error))
    }
}

/// One line: where in the template, and what is wrong.
fn describe(error: &Error) -> String {
    let line = error.line().map_or_else(String::new, |line| format!(" line {line}"));
    match error.detail() {
        Some(detail) => format!("template{line}: {}: {detail}", error.kind()),
        None => format!("template{line}: {}", error.kind()),
    }
}
