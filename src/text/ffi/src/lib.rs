//! Tokenizers and chat templates behind `quern_text_ffi.h`, which is the contract of every exported function.

mod abi;
mod template;
mod tokenizer;
