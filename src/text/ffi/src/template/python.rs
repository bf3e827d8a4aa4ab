//! Python's answers where minijinja's differ: how values print, what is a sequence.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use std::fmt::Write;

const DEPTH_MAX: usize = 200;

pub fn add_to(environment: &mut Environment<'static>) {
    environment.set_formatter(|out: &mut Output, state: &mut State, value: &Value| {
        match value.as_str() {
            Some(text) => out.write_str(text),
            None => out.write_str(&str_of(state, value)?),
        }
        .map_err(Error::from)
    });
    environment.add_filter("string", |state: &State, value: &Value| -> Result<Value, Error> {
        match value.kind() {
            ValueKind::String => Ok(value.clone()),
            _ => str_of(state, value).map(Value::from),
        }
    });
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    // Python's test asks for a length and an item access, which strings and dicts have too.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
    });
}

/// `str(value)`.
fn str_of(state: &State, value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let mut repr = Repr { state, text: String::new(), charged: 0 };
            repr.value(value, 0)?;
            Ok(repr.text)
        }
        _ => Ok(value.to_string()),
    }
}

struct Repr<'a, 't, 'e> {
    state: &'a State<'t, 'e>,
    text: String,
    charged: usize,
}

impl Repr<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "recursion limit exceeded"));
        }
        self.charge()?;
        match value.kind() {
            ValueKind::Number if !value.is_integer() => {
                let float = f64::try_from(value.clone())?;
                if float.is_finite() {
                    self.text.push_str(&float_repr(float));
                } else {
                    write!(self.text, "{}", value.to_string().to_lowercase())?;
                }
            }
            // A sum of lists is one too; what has no length is no list.
            ValueKind::Seq | ValueKind::Iterable if value.len().is_some() => {
                let tuple = value.downcast_object_ref::<Tuple>().is_some();
                self.text.push(if tuple { '(' } else { '[' });
                let mut count = 0;
                for item in value.try_iter()? {
                    self.text.push_str(if count > 0 { ", " } else { "" });
                    self.value(&item, depth + 1)?;
                    count += 1;
                }
                self.text.push_str(match (tuple, count) {
                    (true, 1) => ",)",
                    (true, _) => ")",
                    (false, _) => "]",
                });
            }
            ValueKind::Map => {
                self.text.push('{');
                for (i, key) in value.try_iter()?.enumerate() {
                    self.text.push_str(if i > 0 { ", " } else { "" });
                    self.value(&key, depth + 1)?;
                    self.text.push_str(": ");
                    self.value(&value.get_item(&key)?, depth + 1)?;
                }
                self.text.push('}');
            }
            ValueKind::Undefined => self.text.push_str("Undefined"),
            _ => write!(self.text, "{value:?}")?,
        }
        Ok(())
    }

    /// A list that holds another twice, and so on, prints without end: what is walked is paid for.
    fn charge(&mut self) -> Result<(), Error> {
        let bytes = self.text.len() - self.charged;
        self.charged = self.text.len();
        self.state.consume_fuel(1 + bytes as u64 / 16)
    }
}

/// `repr` of a finite float: the shortest digits that give it back, in scientific form below 1e-4 and from 1e16 on.
pub fn float_repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = value.to_string();
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
