//! A width or precision makes a long text of a short one: bounded wherever a template gives one.

use minijinja::{Error, ErrorKind, Value};

const WIDTH_MAX: usize = 1 << 16;

pub fn check_one(width: usize) -> Result<(), Error> {
    if width > WIDTH_MAX {
        let what = format!("width {width} is over the limit of {WIDTH_MAX}");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    Ok(())
}

/// `format` is the text of a format call in either style. Any number in a replacement field counts as a width: between
/// `{` and `}`, or behind `%`. Where a width stands among the arguments (`%*d`, `{:{}}`), every integer counts.
pub fn check<'a>(format: &str, args: impl IntoIterator<Item = &'a Value>) -> Result<(), Error> {
    let mut inside = 0;
    let mut number = 0usize;
    let mut behind_percent = false;
    let mut from_args = false;
    for c in format.chars() {
        match c {
            '{' => inside += 1,
            '}' => inside -= 1,
            '%' => behind_percent = true,
            '0'..='9' if inside > 0 || behind_percent => {
                number = number.saturating_mul(10).saturating_add(c as usize - '0' as usize);
                check_one(number)?;
                continue;
            }
            '*' if behind_percent => from_args = true,
            c if c.is_alphabetic() => behind_percent = false,
            _ => {}
        }
        from_args |= inside > 1;
        number = 0;
    }
    if from_args {
        for arg in args {
            // A negative one aligns to the left.
            if let Ok(width) = i64::try_from(arg.clone()) {
                check_one(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(format: &str, args: &[i64]) -> bool {
        let args: Vec<Value> = args.iter().map(|&arg| Value::from(arg)).collect();
        check(format, &args).is_err()
    }

    #[test]
    fn widths_in_the_text() {
        assert!(!refused("{:>65536} %65536d", &[1]));
        assert!(refused("{:>65537}", &[1]));
        assert!(refused("{:.99999999999999999999999}", &[1]));
        assert!(refused("%.65537f", &[1]));
        assert!(refused("%-+ 065537d", &[1]));
    }

    #[test]
    fn numbers_that_are_no_widths() {
        assert!(!refused("99999999 is 99999999", &[1]));
        assert!(!refused("{} of 99999999, %s of 99999999", &[99999999]));
    }

    #[test]
    fn widths_among_the_arguments() {
        assert!(refused("%*d", &[70000, 1]));
        assert!(refused("%.*f", &[-70000, 1]));
        assert!(refused("{:{}}", &[1, 70000]));
        assert!(!refused("%*d", &[6, 1]));
    }
}
