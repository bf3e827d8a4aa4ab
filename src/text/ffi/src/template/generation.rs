//! `{% generation %}` of `transformers`: marks what the assistant said. Jinja2 makes it a call block; so it becomes one here,
//! of a function that puts marks around its body, and the marks are taken out of the rendered text.

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, State, Value};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

const FUNCTION: &str = "quern_generation";

/// Texts that nothing else contains: drawn for this process.
#[derive(Clone)]
pub struct Marks {
    begin: String,
    end: String,
}

impl Marks {
    pub fn new() -> Self {
        let nonce = RandomState::new().build_hasher().finish();
        Marks { begin: format!("\u{1}{nonce:016x}<\u{1}"), end: format!("\u{1}{nonce:016x}>\u{1}") }
    }

    pub fn add_to(&self, environment: &mut Environment<'static>) {
        let marks = self.clone();
        let call = move |state: &mut State, kwargs: Kwargs| -> Result<Value, Error> {
            let caller: Value = kwargs.get("caller")?;
            let body = caller.call(state, &[])?;
            Ok(Value::from(format!("{}{body}{}", marks.begin, marks.end)))
        };
        environment.add_function(FUNCTION, call);
    }

    /// The text without marks, and what they enclosed as pairs of code point offsets.
    pub fn remove(&self, text: String) -> (String, Vec<u32>) {
        if !text.contains(&self.begin) {
            return (text, vec![]);
        }
        let mut clean = String::with_capacity(text.len());
        let mut spans = vec![];
        let mut num_chars = 0;
        let mut rest = text.as_str();
        while let Some((at, mark)) = self.next_mark(rest) {
            num_chars += rest[..at].chars().count() as u32;
            clean.push_str(&rest[..at]);
            spans.push(num_chars);
            rest = &rest[at + mark.len()..];
        }
        clean.push_str(rest);
        (clean, spans)
    }

    fn next_mark(&self, text: &str) -> Option<(usize, &str)> {
        let mark_at = |at: usize| {
            let mark = [&self.begin, &self.end].into_iter().find(|mark| text[at..].starts_with(mark.as_str()))?;
            Some((at, mark.as_str()))
        };
        text.match_indices('\u{1}').find_map(|(at, _)| mark_at(at))
    }
}

/// The tag as minijinja knows it; None for every other statement.
pub fn rewritten(statement: &str) -> Option<String> {
    match statement {
        "generation" => Some(format!("call {FUNCTION}()")),
        "endgeneration" => Some("endcall".into()),
        _ => None,
    }
}
