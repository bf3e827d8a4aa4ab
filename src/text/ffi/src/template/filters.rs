//! Filters of Jinja2 that minijinja lacks or writes differently.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::methods::padded;
use super::widths;

pub fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("escape", escape_filter);
    environment.add_filter("e", escape_filter);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("wordcount", |text: &str| words(text));
    environment.add_filter("truncate", truncate);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("format", format_printf);
    environment.add_filter("xmlattr", xmlattr);
    environment
        .add_filter("center", |text: &str, width: Option<usize>| padded(text, "center", width.unwrap_or(80), ' '));
}

/// Jinja2 takes by position what minijinja-contrib takes by name alone.
fn truncate(state: &mut State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    const NAMES: [&str; 4] = ["length", "killwords", "end", "leeway"];
    if args.len() > NAMES.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut passed: Vec<(&str, Value)> = NAMES.into_iter().zip(args.iter().cloned()).collect();
    for name in named.args() {
        if passed.iter().any(|(taken, _)| *taken == name) {
            return Err(Error::new(ErrorKind::TooManyArguments, format!("duplicate argument `{name}`")));
        }
        passed.push((name, named.get(name)?));
    }
    minijinja_contrib::filters::truncate(state, value, passed.into_iter().collect())
}

fn format_printf(state: &mut State, format: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    widths::check(format.as_str().unwrap_or_default(), args.iter().map(|arg| &**arg))?;
    minijinja::filters::format(state, format, args)
}

fn escape_filter(state: &State, text: &Value) -> Result<String, Error> {
    pay_for_growth(state, text)?;
    Ok(escape(text))
}

/// One character becomes six at most, which is paid for before they are there.
fn pay_for_growth(state: &State, value: &Value) -> Result<(), Error> {
    state.consume_fuel(value.as_str().map_or(0, str::len) as u64 * 6 / 64)
}

/// As MarkupSafe, which Jinja2 uses.
fn escape(text: &Value) -> String {
    let mut escaped = String::new();
    for c in text.to_string().chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Jinja2 gives a default where minijinja fails.
fn int(
    state: &State,
    value: &Value,
    default: Option<Value>,
    base: Option<u32>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let default = match default {
        Some(default) => default,
        None => kwargs.get::<Option<Value>>("default")?.unwrap_or_else(|| Value::from(0)),
    };
    minijinja::filters::int(state, value, Some(default), base, kwargs)
}

fn float(state: &State, value: &Value, default: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let default = match default {
        Some(default) => default,
        None => kwargs.get::<Option<Value>>("default")?.unwrap_or_else(|| Value::from(0.0)),
    };
    minijinja::filters::float(state, value, Some(default), kwargs)
}

fn words(text: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
}

fn urlencode(state: &State, value: &Value) -> Result<String, Error> {
    pay_for_growth(state, value)?;
    if value.kind() != ValueKind::Map {
        return Ok(quote(&value.to_string(), "/"));
    }
    let mut pairs = vec![];
    for key in value.try_iter()? {
        let item = value.get_item(&key)?;
        pairs.push(format!("{}={}", quote(&key.to_string(), ""), quote(&item.to_string(), "")));
    }
    Ok(pairs.join("&"))
}

fn quote(text: &str, safe: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        let c = byte as char;
        if c.is_ascii_alphanumeric() || "_.-~".contains(c) || safe.contains(c) {
            quoted.push(c);
        } else {
            quoted.push_str(&format!("%{byte:02X}"));
        }
    }
    quoted
}

fn xmlattr(map: &Value) -> Result<String, Error> {
    let mut attributes = String::new();
    for key in map.try_iter()? {
        let value = map.get_item(&key)?;
        if !value.is_none() && !value.is_undefined() {
            attributes.push_str(&format!(" {}=\"{}\"", escape(&key), escape(&value)));
        }
    }
    Ok(attributes)
}
