//! `tojson` as `transformers` defines it: Python's `json.dumps(x, ensure_ascii=False, indent, separators, sort_keys)`.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::python::float_repr;

const DEPTH_MAX: usize = 200;

struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Style {
    /// Positional arguments come in the order of the Python function.
    fn from_args(args: &[Value], kwargs: &Kwargs) -> Result<Style, Error> {
        let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
        if args.len() > names.len() {
            return Err(Error::new(ErrorKind::TooManyArguments, "tojson"));
        }
        let mut values: [Value; 4] = Default::default();
        for (i, name) in names.iter().enumerate() {
            values[i] = match args.get(i) {
                Some(value) => value.clone(),
                None => kwargs.get::<Option<Value>>(name)?.unwrap_or_default(),
            };
        }
        kwargs.assert_all_used()?;
        let [ensure_ascii, indent, separators, sort_keys] = values;
        let indent = indent_text(&indent)?;
        // Python leaves out the space after a comma that a line break follows.
        let item_separator = if indent.is_some() { "," } else { ", " };
        let mut style = Style {
            ensure_ascii: ensure_ascii.is_true(),
            indent,
            item_separator: item_separator.into(),
            key_separator: ": ".into(),
            sort_keys: sort_keys.is_true(),
        };
        if !separators.is_undefined() && !separators.is_none() {
            let part = |i: usize| separators.get_item_by_index(i).map(|value| value.to_string());
            (style.item_separator, style.key_separator) = (part(0)?, part(1)?);
        }
        Ok(style)
    }
}

fn indent_text(indent: &Value) -> Result<Option<String>, Error> {
    match indent.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(None),
        ValueKind::String => Ok(Some(indent.to_string())),
        _ => {
            let width = i64::try_from(indent.clone())?.clamp(0, 64);
            Ok(Some(" ".repeat(width as usize)))
        }
    }
}

pub fn tojson(state: &State, value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let style = Style::from_args(&args, &kwargs)?;
    let mut writer = Writer { state, style, text: String::new(), charged: 0 };
    writer.value(value, 0)?;
    Ok(Value::from(writer.text))
}

struct Writer<'a, 't, 'e> {
    state: &'a State<'t, 'e>,
    style: Style,
    text: String,
    charged: usize,
}

impl Writer<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "recursion limit exceeded"));
        }
        self.charge()?;
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => {
                let what = format!("{kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::InvalidOperation, what));
            }
        }
        Ok(())
    }

    /// The engine charges for the result; walking to it costs about as much again, and must end in time.
    fn charge(&mut self) -> Result<(), Error> {
        let bytes = self.text.len() - self.charged;
        self.charged = self.text.len();
        self.state.consume_fuel(1 + bytes as u64 / 16)
    }

    fn number(&mut self, value: &Value) {
        match f64::try_from(value.clone()) {
            Ok(float) if !value.is_integer() => match float {
                _ if float.is_nan() => self.text.push_str("NaN"),
                _ if float.is_infinite() => self.text.push_str(if float > 0.0 { "Infinity" } else { "-Infinity" }),
                _ => self.text.push_str(&float_repr(float)),
            },
            _ => self.text.push_str(&value.to_string()),
        }
    }

    fn list(&mut self, list: &Value, depth: usize) -> Result<(), Error> {
        self.text.push('[');
        let mut empty = true;
        for item in list.try_iter()? {
            self.before_item(empty, depth + 1);
            self.value(&item, depth + 1)?;
            empty = false;
        }
        self.close(']', empty, depth);
        Ok(())
    }

    fn map(&mut self, map: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = map.try_iter()?.collect();
        if self.style.sort_keys {
            keys.sort();
        }
        self.text.push('{');
        for (i, key) in keys.iter().enumerate() {
            self.before_item(i == 0, depth + 1);
            self.key(key)?;
            self.text.push_str(&self.style.key_separator);
            self.value(&map.get_item(key)?, depth + 1)?;
        }
        self.close('}', keys.is_empty(), depth);
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                self.text.push('"');
                self.value(key, 0)?;
                self.text.push('"');
            }
            kind => return Err(Error::new(ErrorKind::InvalidOperation, format!("a key of type {kind}"))),
        }
        Ok(())
    }

    fn before_item(&mut self, first: bool, depth: usize) {
        if !first {
            self.text.push_str(&self.style.item_separator);
        }
        self.line_break(depth);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.line_break(depth);
        }
        self.text.push(bracket);
    }

    fn line_break(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.text.push('\n');
            for _ in 0..depth {
                self.text.push_str(indent);
            }
        }
    }

    fn string(&mut self, string: &str) {
        self.text.push('"');
        for c in string.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{C}' => self.text.push_str("\\f"),
                c if c < ' ' || (self.style.ensure_ascii && c > '~') => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        self.text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }
}
