//! Jinja2's `cycler(*items)`; minijinja-contrib's takes one list.

use minijinja::value::{from_args, Object, Rest};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

pub fn add_to(environment: &mut Environment<'static>) {
    environment.add_function("cycler", |items: Rest<Value>| -> Result<Value, Error> {
        if items.is_empty() {
            return Err(Error::new(ErrorKind::MissingArgument, "cycler: at least one item has to be provided"));
        }
        Ok(Value::from_object(Cycler { items: items.0, at: AtomicUsize::new(0) }))
    });
}

#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Cycler {
    fn current(&self) -> Value {
        self.items[self.at.load(Ordering::Relaxed) % self.items.len()].clone()
    }
}

impl Object for Cycler {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let () = from_args(args)?;
        match method {
            "next" => {
                let item = self.current();
                self.at.fetch_add(1, Ordering::Relaxed);
                Ok(item)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}
