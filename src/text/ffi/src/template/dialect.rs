//! Differences between Jinja2's statements and minijinja's that can be bridged by rewriting the statement: the generation
//! tag, `with a = 1, b = a`, whose right sides all see the outer scope, and macros that take more than they declare.

use super::generation;
use super::macros::OpenMacros;

/// The template in minijinja's dialect; comments, raw blocks and strings stay as they are.
pub fn rewrite(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 64);
    let mut macros = OpenMacros::default();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (plain, tag) = rest.split_at(at);
        result.push_str(plain);
        let size = tag_size(tag);
        match rewritten(&tag[..size]) {
            Some(other) => result.push_str(&other),
            None => result.push_str(&tag[..size]),
        }
        rest = &tag[size..];
        if let Some(statement) = statement(&tag[..size]) {
            macros.follow(statement, rest, &mut result);
        }
    }
    result.push_str(rest);
    result
}

/// Bytes of the tag that `text` begins with, a raw block as a whole; 1 for a brace that begins none.
fn tag_size(text: &str) -> usize {
    match text.as_bytes().get(1) {
        Some(b'#') => text.find("#}").map_or(text.len(), |end| end + 2),
        Some(b'{') => code_size(text, "}}"),
        Some(b'%') => {
            let size = code_size(text, "%}");
            if statement(&text[..size]) == Some("raw") {
                size + raw_size(&text[size..])
            } else {
                size
            }
        }
        _ => 1,
    }
}

fn code_size(text: &str, close: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 2;
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            _ if bytes[at..].starts_with(close.as_bytes()) => return at + close.len(),
            _ => at += 1,
        }
    }
    text.len()
}

fn raw_size(text: &str) -> usize {
    for (at, _) in text.match_indices("{%") {
        let Some(end) = text[at..].find("%}") else { break };
        let size = end + 2;
        if statement(&text[at..at + size]) == Some("endraw") {
            return at + size;
        }
    }
    text.len()
}

/// The inside of `{% … %}` without whitespace control.
fn statement(tag: &str) -> Option<&str> {
    let inside = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    Some(inside.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim())
}

fn rewritten(tag: &str) -> Option<String> {
    let inside = statement(tag)?;
    let other = generation::rewritten(inside).or_else(|| parallel_with(inside))?;
    Some(tag.replacen(inside, &other, 1))
}

/// `with a = 1, b = a` as `with (a, b) = (1, a)`.
fn parallel_with(statement: &str) -> Option<String> {
    let assignments = statement.strip_prefix("with")?.strip_prefix(char::is_whitespace)?;
    let parts = split_outside(assignments, ',');
    if parts.len() < 2 {
        return None;
    }
    let mut names = vec![];
    let mut values = vec![];
    for part in parts {
        let (name, value) = part.split_once('=')?;
        if !name.trim().chars().all(|c| c.is_alphanumeric() || c == '_') {
            return None;
        }
        names.push(name.trim());
        values.push(value.trim());
    }
    Some(format!("with ({}) = ({})", names.join(", "), values.join(", ")))
}

/// Splits at `separator` where no bracket or string is open.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let mut parts = vec![];
    let mut begin = 0;
    let mut depth = 0i32;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, c) if c == separator && depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}
