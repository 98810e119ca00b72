//! The blocks of docs/redis.md.

const PAGE: &str = include_str!("../../../docs/redis.md");

/// All blocks in a language.
pub fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}
