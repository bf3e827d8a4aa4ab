//! Values and expressions nest as deep as a template likes, and are dropped and compared by recursion. So templates are
//! compiled and rendered on a stack that their limits on text and fuel cannot fill.

use crate::abi::{quiet_unwind, Failure};

/// Address space alone; only what is touched costs memory.
const STACK_BYTES: usize = 1 << 30;

pub fn on_deep_stack<T: Send>(body: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("template".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || quiet_unwind(body))
            .map_err(|error| Failure::exhausted(format!("template: no thread: {error}")))?;
        match thread.join() {
            Ok(Ok(result)) => result,
            Ok(Err(message)) => Err(Failure::internal(message)),
            Err(_) => Err(Failure::internal("template: the thread failed")),
        }
    })
}
