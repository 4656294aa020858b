//! Names that are known only at run time and live until the process ends.
//!
//! Names of chains and methods are `&'static str`, so that every call copies and compares them without reference
//! counts. Names from a configuration are interned once per text, so reading the configuration again takes no memory.
//!
//! Intern text from an operator or an embedder, never text from a caller: nothing is released.

use parking_lot::Mutex;
use std::collections::BTreeSet;

static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());

/// Returns the same text with a static lifetime.
///
/// ```
/// use rpcgate_core::intern::intern;
///
/// let read = String::from("gnosis");
/// assert_eq!(intern(&read), "gnosis");
/// assert!(std::ptr::eq(intern(&read), intern("gnosis")), "kept once");
/// ```
pub fn intern(text: &str) -> &'static str {
    let mut texts = TEXTS.lock();
    match texts.get(text) {
        Some(interned) => interned,
        None => {
            let interned: &'static str = Box::leak(Box::<str>::from(text));
            texts.insert(interned);
            interned
        }
    }
}

/// Returns the same list with a static lifetime, for [`Facts::aliases`](crate::chain::Facts::aliases).
pub fn intern_all(texts: &[&str]) -> &'static [&'static str] {
    let list: Vec<&'static str> = texts.iter().map(|text| intern(text)).collect();
    let mut lists = LISTS.lock();
    match lists.get(list.as_slice()) {
        Some(interned) => interned,
        None => {
            let interned: &'static [&'static str] = Box::leak(list.into_boxed_slice());
            lists.insert(interned);
            interned
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_and_a_list_are_kept_once() {
        let one = intern(&"in".repeat(3));
        assert!(std::ptr::eq(one, intern("ininin")));
        assert!(!std::ptr::eq(one, intern("inin")));
        let list = intern_all(&["a list", "of two"]);
        assert_eq!(list, ["a list", "of two"]);
        assert!(std::ptr::eq(list, intern_all(&[&String::from("a list"), "of two"])));
        assert_eq!(intern_all(&[]), [""; 0]);
    }
}
