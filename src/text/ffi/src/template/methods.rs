//! Methods of Python's str and list that templates call: minijinja-contrib's, and those it lacks.

use minijinja::value::{from_args, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::widths;

pub fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match (value.kind(), value.as_str()) {
        (ValueKind::String, Some(text)) => {
            if method == "format" {
                widths::check(text, args)?;
            }
            string_method(text, method, args)
        }
        (ValueKind::Seq, _) => list_method(value, method, args),
        _ => Ok(None),
    };
    match own? {
        Some(result) => Ok(result),
        None => unknown_method_callback(state, value, method, args),
    }
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            three(text.split_once(not_empty(separator)?).map_or([text, "", ""], |(a, b)| [a, separator, b]))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            three(text.rsplit_once(not_empty(separator)?).map_or(["", "", text], |(a, b)| [a, separator, b]))
        }
        "rsplit" => {
            let (separator, limit): (Option<&str>, Option<i64>) = from_args(args)?;
            rsplit(text, separator, limit)?
        }
        "index" | "rindex" => {
            let (part,): (&str,) = from_args(args)?;
            let found = if method == "index" { text.find(part) } else { text.rfind(part) };
            let at = found.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
            Value::from(text[..at].chars().count())
        }
        "swapcase" => {
            let () = from_args(args)?;
            Value::from(text.chars().map(swapped).collect::<String>())
        }
        "casefold" => {
            let () = from_args(args)?;
            Value::from(text.to_lowercase())
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            Value::from(format!("{sign}{}{digits}", padding(text, width, '0')?))
        }
        "ljust" | "rjust" | "center" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            Value::from(padded(text, method, width, fill.unwrap_or(' '))?)
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "index" => {
            let (wanted,): (Value,) = from_args(args)?;
            let at = list.try_iter()?.position(|item| item == wanted);
            let missing = || Error::new(ErrorKind::InvalidOperation, format!("{wanted} is not in list"));
            Ok(Some(Value::from(at.ok_or_else(missing)?)))
        }
        "copy" => {
            let () = from_args(args)?;
            Ok(Some(list.clone()))
        }
        _ => Ok(None),
    }
}

fn three(parts: [&str; 3]) -> Value {
    Value::from_object(Tuple::new(parts.map(Value::from).to_vec()))
}

fn not_empty(separator: &str) -> Result<&str, Error> {
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    Ok(separator)
}

fn rsplit(text: &str, separator: Option<&str>, limit: Option<i64>) -> Result<Value, Error> {
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).map_or(usize::MAX, |limit| limit.saturating_add(1));
    let mut parts: Vec<&str> = match separator {
        Some(separator) => text.rsplitn(limit, not_empty(separator)?).collect(),
        None => rsplit_whitespace(text, limit),
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}

fn rsplit_whitespace(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = vec![];
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let split = if parts.len() + 1 < limit { rest.rfind(char::is_whitespace) } else { None };
        let Some(at) = split else {
            parts.push(rest.trim_start());
            break;
        };
        parts.push(rest[at..].trim_start());
        rest = rest[..at].trim_end();
    }
    parts
}

fn swapped(c: char) -> String {
    if c.is_uppercase() {
        c.to_lowercase().collect()
    } else {
        c.to_uppercase().collect()
    }
}

fn padding(text: &str, width: usize, fill: char) -> Result<String, Error> {
    widths::check_one(width)?;
    Ok(fill.to_string().repeat(width.saturating_sub(text.chars().count())))
}

/// `ljust`, `rjust` or `center`.
pub fn padded(text: &str, method: &str, width: usize, fill: char) -> Result<String, Error> {
    let fill = padding(text, width, fill)?;
    Ok(match method {
        "ljust" => format!("{text}{fill}"),
        "rjust" => format!("{fill}{text}"),
        _ => {
            // CPython gives the odd one to the left when the width is odd.
            let num = fill.chars().count();
            let left = num / 2 + (num & width & 1);
            let split = fill.char_indices().nth(left).map_or(fill.len(), |(at, _)| at);
            format!("{}{text}{}", &fill[..split], &fill[split..])
        }
    })
}
