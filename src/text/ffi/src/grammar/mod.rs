//! Grammars for constrained decoding: `llguidance` over a vocabulary that the caller describes.

mod abi;
mod vocabulary;

use std::sync::Mutex;

use llguidance::api::{GrammarWithLexer, ParserLimits, StopReason, TopLevelGrammar};
use llguidance::toktrie::{InferenceCapabilities, SimpleVob};
use llguidance::{JsonCompileOptions, Matcher, ParserFactory};

use crate::abi::{quiet_unwind, Failure};
use vocabulary::Vocabulary;

/// Compiling recurses with the depth of the grammar; threads of the caller may have small stacks.
const COMPILE_STACK_BYTES: usize = 64 << 20;
const MESSAGE_CHARS_MAX: usize = 400;

pub enum Part {
    JsonSchema,
    Regex,
    Lark,
}

pub struct Env {
    factory: ParserFactory,
    vocab_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Limits {
    pub compile_fuel: u64,
    pub step_fuel: u64,
    pub step_items: u64,
    pub lexer_states: u64,
    pub grammar_size: u64,
}

impl Env {
    pub fn new(vocabulary: Vocabulary, limits: Limits) -> Result<Env, Failure> {
        let vocab_size = vocabulary.size();
        let tok_env = vocabulary.into_env();
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&tok_env, InferenceCapabilities::default(), &slices)
            .map_err(|e| Failure::file(format!("the vocabulary does not serve grammars: {e}")))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            initial_lexer_fuel: limits.compile_fuel,
            step_lexer_fuel: limits.step_fuel,
            step_max_items: limits.step_items as usize,
            max_lexer_states: limits.lexer_states as usize,
            max_grammar_size: limits.grammar_size as usize,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Env { factory, vocab_size })
    }

    /// The first part is the start; others are known to it by their names (`@name` in Lark).
    pub fn compile(&self, parts: &[(&str, Part, &str)], whitespace: &str) -> Result<Grammar, Failure> {
        let grammars = parts.iter().map(|part| compile_part(part, whitespace)).collect::<Result<Vec<_>, _>>()?;
        let top = TopLevelGrammar { grammars, max_tokens: None };
        let build = || {
            let parser = self.factory.create_parser(top).map_err(|e| Failure::argument(brief(&e.to_string())))?;
            let mut matcher = Matcher::new(Ok(parser));
            // The first mask is the same for everybody: made here, it also fails here.
            matcher.compute_mask_or_eos().map_err(|e| Failure::argument(brief(&e.to_string())))?;
            Ok(Grammar { fresh: Mutex::new(matcher), vocab_size: self.vocab_size })
        };
        on_large_stack(build)
    }
}

fn compile_part((name, kind, text): &(&str, Part, &str), whitespace: &str) -> Result<GrammarWithLexer, Failure> {
    let mut grammar = match kind {
        Part::Regex => GrammarWithLexer::from_regex(text),
        Part::Lark => GrammarWithLexer::from_lark(text.to_string()),
        Part::JsonSchema => {
            let schema = serde_json::from_str(text).map_err(|e| Failure::argument(format!("not JSON: {e}")))?;
            GrammarWithLexer::from_json_schema(with_options(schema, whitespace)?)
        }
    };
    grammar.name = Some(name.to_string());
    Ok(grammar)
}

/// Strict in every keyword; blanks between the parts of the value only as the pattern allows.
fn with_options(schema: serde_json::Value, whitespace: &str) -> Result<serde_json::Value, Failure> {
    let mut schema = match schema {
        serde_json::Value::Object(_) => schema,
        serde_json::Value::Bool(true) => serde_json::json!({}),
        serde_json::Value::Bool(false) => return Err(Failure::argument("the schema false allows nothing")),
        _ => return Err(Failure::argument("a schema must be an object or a boolean")),
    };
    let options = JsonCompileOptions {
        whitespace_flexible: true,
        whitespace_pattern: Some(whitespace.to_string()),
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut schema);
    Ok(schema)
}

/// The library's messages may carry a dump of its state and names of its own settings; what helps a reader is the
/// beginning.
fn brief(message: &str) -> String {
    let message = message.split("\n<").next().unwrap_or("").trim();
    if message.contains("NoExtension") {
        return "no text can satisfy it".to_string();
    }
    let limits = ["lexer precomputation failed", "too many expressions", "too many states", "fuel", "Current row has"];
    if limits.iter().any(|limit| message.contains(limit)) {
        return format!("too complex: {}", message.split(';').next().unwrap_or(""));
    }
    message.chars().take(MESSAGE_CHARS_MAX).collect()
}

fn on_large_stack<T: Send>(body: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let guarded = || {
            quiet_unwind(body)
                .unwrap_or_else(|message| Err(Failure::argument(format!("cannot be compiled: {}", brief(&message)))))
        };
        let thread = std::thread::Builder::new().stack_size(COMPILE_STACK_BYTES).spawn_scoped(scope, guarded);
        let thread = thread.map_err(|e| Failure::exhausted(format!("no thread to compile a grammar: {e}")))?;
        thread.join().unwrap_or_else(|_| Err(Failure::internal("the grammar compiler died")))
    })
}

/// Compiled and never advanced; every matcher is a copy that shares nothing which a failure could spoil for others.
pub struct Grammar {
    fresh: Mutex<Matcher>,
    vocab_size: usize,
}

impl Grammar {
    pub fn matcher(&self) -> State {
        let fresh = self.fresh.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        State { matcher: fresh.deep_clone(), vocab_size: self.vocab_size }
    }
}

pub struct State {
    matcher: Matcher,
    vocab_size: usize,
}

impl State {
    pub fn copy(&self) -> State {
        State { matcher: self.matcher.deep_clone(), vocab_size: self.vocab_size }
    }

    /// One bit per token, low bits first.
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), Failure> {
        let mask: SimpleVob = self.matcher.compute_mask_or_eos().map_err(|e| Failure::exhausted(brief(&e.to_string())))?;
        let wanted = self.vocab_size.div_ceil(32);
        if words.len() != wanted {
            return Err(Failure::internal(format!("a mask of {} words for {wanted}", words.len())));
        }
        let source = mask.as_slice();
        for (i, word) in words.iter_mut().enumerate() {
            *word = source.get(i).copied().unwrap_or(0);
        }
        Ok(())
    }

    /// false: the grammar does not allow the token here; the state is as before.
    pub fn accept(&mut self, token: u32) -> Result<bool, Failure> {
        let consumed = self.matcher.try_consume_tokens(&[token]);
        consumed.map(|n| n == 1).map_err(|e| Failure::exhausted(brief(&e.to_string())))
    }

    /// How many of the tokens, one after the other, the grammar allows; the state is as before.
    pub fn allowed(&mut self, tokens: &[u32]) -> Result<usize, Failure> {
        if self.stopped() {
            return Ok(0);
        }
        let known = tokens.iter().take_while(|&&token| (token as usize) < self.vocab_size).count();
        self.matcher.validate_tokens(&tokens[..known]).map_err(|e| Failure::exhausted(brief(&e.to_string())))
    }

    pub fn rollback(&mut self, num_tokens: usize) -> Result<(), Failure> {
        self.matcher.rollback(num_tokens).map_err(|e| Failure::argument(brief(&e.to_string())))
    }

    pub fn accepting(&mut self) -> bool {
        self.matcher.is_accepting().unwrap_or(false)
    }

    pub fn stopped(&self) -> bool {
        self.matcher.stop_reason() != StopReason::NotStopped
    }

    pub fn forced(&mut self) -> Vec<u32> {
        if self.stopped() {
            return vec![];
        }
        self.matcher.compute_ff_tokens()
    }
}
