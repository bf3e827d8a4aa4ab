//! Tokenizers, chat templates and grammars behind `quern_text_ffi.h`, which is the contract of every exported function.

mod abi;
mod grammar;
mod template;
mod tokenizer;
