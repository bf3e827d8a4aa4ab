//! A pre-tokenizer's pattern as an automaton that reads each character once or twice, whatever the text.

use regex_automata::meta::{Cache, Config, Regex};
use regex_automata::{Anchored, Input, PatternID};
use regex_syntax::ast::{parse::Parser, visit, Ast, Flag, Flags, FlagsItem, FlagsItemKind, Visitor};

/// Ends that most patterns share: a run of spaces, the last of them left to the word that follows. No automaton can
/// look ahead, so the run is found whole and cut here.
const SPACES: &str = r"|\s+(?!\S)|\s+";

/// Of each of an automaton's two directions, for each call at once.
const CACHE_BYTES: usize = 512 << 10;

pub struct Pattern {
    regex: Regex,
    /// Ends in SPACES: its matches follow one another, and those of the second pattern are runs of spaces.
    spaces: bool,
    /// Drops what lies between matches.
    matches_only: bool,
}

impl Pattern {
    /// None when the pattern needs more than an automaton can do, or may mean something else to the library's engine.
    pub fn new(pattern: &str, matches_only: bool) -> Option<Pattern> {
        let main = pattern.strip_suffix(SPACES);
        let ast = Parser::new().parse(main.unwrap_or(pattern)).ok()?;
        visit(&ast, NoDoubleRepetition).ok()?;
        let hir = regex_syntax::parse(main.unwrap_or(pattern)).ok()?;
        let properties = hir.properties();
        if !properties.look_set().is_empty() || properties.minimum_len().is_none_or(|size| size == 0) {
            return None;
        }
        let config = Config::new().hybrid_cache_capacity(CACHE_BYTES);
        let regex = match main {
            Some(main) => Regex::builder().configure(config).build_many(&[main, r"\s+"]).ok()?,
            None => Regex::builder().configure(config).build(pattern).ok()?,
        };
        Some(Pattern { regex, spaces: main.is_some(), matches_only })
    }

    pub fn create_cache(&self) -> Cache {
        self.regex.create_cache()
    }

    /// Calls `part` with begin and end of each part of the text, in order.
    pub fn split<E>(
        &self,
        cache: &mut Cache,
        text: &str,
        mut part: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut input = Input::new(text);
        let mut at = 0;
        while at < text.len() {
            let (begin, end) = match self.find(cache, &mut input, text, at) {
                Some(found) => found,
                None => (text.len(), text.len()),
            };
            if at < begin && !self.matches_only {
                part(at, begin)?;
            }
            if begin < end {
                part(begin, end)?;
            }
            at = end;
        }
        Ok(())
    }

    fn find(&self, cache: &mut Cache, input: &mut Input, text: &str, at: usize) -> Option<(usize, usize)> {
        input.set_start(at);
        if self.spaces {
            input.set_anchored(Anchored::Yes);
            if let Some(found) = self.regex.search_half_with(cache, input) {
                return Some((at, self.end(text, at, found.offset(), found.pattern())));
            }
            input.set_anchored(Anchored::No);
        }
        let found = self.regex.search_with(cache, input)?;
        Some((found.start(), self.end(text, found.start(), found.end(), found.pattern())))
    }

    fn end(&self, text: &str, begin: usize, end: usize, pattern: PatternID) -> usize {
        if pattern.as_usize() == 0 || end == text.len() {
            return end;
        }
        let last = text[begin..end].chars().next_back().map_or(0, char::len_utf8);
        if begin < end - last {
            end - last
        } else {
            end
        }
    }
}

/// Case alone: spaces that do not count are read differently within classes.
fn is_plain(flags: &Flags) -> bool {
    let is_case =
        |item: &FlagsItem| matches!(item.kind, FlagsItemKind::Negation | FlagsItemKind::Flag(Flag::CaseInsensitive));
    flags.items.iter().all(is_case)
}

/// `a++` is possessive to one engine and a repetition of a repetition to the other.
struct NoDoubleRepetition;

impl Visitor for NoDoubleRepetition {
    type Output = ();
    type Err = ();

    fn finish(self) -> Result<(), ()> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), ()> {
        match ast {
            Ast::Repetition(outer) if matches!(*outer.ast, Ast::Repetition(_)) => Err(()),
            Ast::Flags(_) => Err(()),
            Ast::Group(group) if group.flags().is_some_and(|flags| !flags.items.is_empty() && !is_plain(flags)) => {
                Err(())
            }
            _ => Ok(()),
        }
    }
}
