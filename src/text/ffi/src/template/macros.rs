//! `varargs` and `kwargs` of Jinja2's macros: what a call gives beyond the declared arguments. minijinja's macros refuse such
//! calls; so a macro whose body names one of the two declares both, and a function around it collects them.

use minijinja::value::{Enumerator, Kwargs, Object, Tuple};
use minijinja::{Environment, Error, State, Value};
use std::sync::Arc;

const FUNCTION: &str = "quern_collecting";
const COLLECTED: [&str; 2] = ["varargs", "kwargs"];
/// Macros inside macros whose bodies are looked at; known templates have none.
const DEPTH_MAX: usize = 16;

pub fn add_to(environment: &mut Environment<'static>) {
    environment.add_function(FUNCTION, |called: Value| -> Result<Value, Error> {
        let mut names = vec![];
        for name in called.get_attr("arguments")?.try_iter()? {
            let name = name.to_string();
            if !COLLECTED.contains(&name.as_str()) {
                names.push(name);
            }
        }
        Ok(Value::from_object(Collecting { called, names }))
    });
}

#[derive(Debug)]
struct Collecting {
    called: Value,
    /// The declared arguments.
    names: Vec<String>,
}

impl Object for Collecting {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "arguments" => Some(self.names.iter().map(Value::from).collect()),
            _ => self.called.get_item(key).ok(),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["name", "arguments", "caller"])
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (positional, named) = match args.split_last() {
            Some((last, before)) if last.is_kwargs() => (before, Some(Kwargs::try_from(last.clone())?)),
            _ => (args, None),
        };
        let (declared, more) = positional.split_at(positional.len().min(self.names.len()));
        let mut passed = vec![];
        let mut collected = vec![];
        for name in named.iter().flat_map(Kwargs::args) {
            let value = named.as_ref().map(|named| named.get::<Value>(name)).transpose()?.unwrap_or_default();
            let known = name == "caller" || self.names.iter().any(|known| known == name);
            if known { &mut passed } else { &mut collected }.push((name.to_string(), value));
        }
        passed.push(("varargs".into(), Value::from_object(Tuple::new(more.to_vec()))));
        passed.push(("kwargs".into(), Value::from_pairs(collected)));
        let mut args = declared.to_vec();
        args.push(passed.into_iter().collect::<Kwargs>().into());
        self.called.call(state, &args)
    }
}

/// The macros that are open where a template is being rewritten.
#[derive(Default)]
pub struct OpenMacros<'t> {
    /// None: one that is left as it is.
    open: Vec<Option<OpenMacro<'t>>>,
}

struct OpenMacro<'t> {
    name: &'t str,
    /// Where the parenthesis that ends the declared arguments stands in the rewritten template; whether it follows any.
    close: usize,
    declares: bool,
    /// The rest of the template, as written, from the body on.
    body: &'t str,
}

impl<'t> OpenMacros<'t> {
    /// Looks at a statement that was just written to the end of `result`; `rest` is what follows it.
    pub fn follow(&mut self, statement: &'t str, rest: &'t str, result: &mut String) {
        if let Some((name, arguments)) = head(statement) {
            let declares_them = COLLECTED.iter().any(|collected| names(arguments, collected));
            let close = result.rfind(')').filter(|_| !declares_them && self.open.len() < DEPTH_MAX);
            let declares = !arguments.trim().is_empty();
            self.open.push(close.map(|close| OpenMacro { name, close, declares, body: rest }));
        } else if statement == "endmacro" || statement.starts_with("endmacro ") {
            if let Some(Some(ended)) = self.open.pop() {
                ended.collect(rest, result);
            }
        }
    }
}

impl OpenMacro<'_> {
    fn collect(self, rest: &str, result: &mut String) {
        let body = &self.body[..self.body.len() - rest.len()];
        if !COLLECTED.iter().any(|name| names(body, name)) {
            return;
        }
        // A second statement behind the last takes over whether the blanks after it are kept.
        let control = if result.ends_with("-%}") { "-" } else { "" };
        result.push_str(&format!("{{%- set {0} = {FUNCTION}({0}) {control}%}}", self.name));
        let comma = if self.declares { ", " } else { "" };
        result.insert_str(self.close, &format!("{comma}{}=none, {}=none", COLLECTED[0], COLLECTED[1]));
    }
}

/// The name of the macro that a statement begins, and the arguments that it declares.
fn head(statement: &str) -> Option<(&str, &str)> {
    let declaration = statement.strip_prefix("macro")?.strip_prefix(char::is_whitespace)?;
    let (name, arguments) = declaration.split_once('(')?;
    let arguments = arguments.strip_suffix(')')?;
    Some((name.trim(), arguments))
}

/// Whether `word` stands in `body` as a name of its own.
fn names(body: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    body.match_indices(word).any(|(at, _)| {
        !body[..at].ends_with(part_of_name) && !body[at + word.len()..].starts_with(part_of_name)
    })
}
