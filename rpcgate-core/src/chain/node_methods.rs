//! The methods that a node serves.

/// The methods that a node serves: all, or those of an allow list, without those of a block list.
///
/// An entry is a name or a family written `trace_*`, and matches the sent or the metered name of a call.
///
/// ```
/// use rpcgate_core::chain::NodeMethods;
///
/// let traces = NodeMethods::new(["trace_*", "eth_call"], ["trace_filter"]);
/// let takes = |method: &str| traces.takes(method.as_bytes(), method.as_bytes());
/// assert!(takes("trace_block") && takes("eth_call"));
/// assert!(!takes("trace_filter") && !takes("eth_getLogs"));
/// assert!(NodeMethods::default().is_all() && !traces.is_all());
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeMethods {
    only: Box<[MethodPattern]>,
    except: Box<[MethodPattern]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct MethodPattern {
    stem: Box<str>,
    is_family: bool,
}

impl MethodPattern {
    fn new(text: &str) -> Self {
        let stem = text.strip_suffix('*');
        MethodPattern { stem: stem.unwrap_or(text).into(), is_family: stem.is_some() }
    }

    fn is_of(&self, method: &[u8]) -> bool {
        if self.is_family { method.starts_with(self.stem.as_bytes()) } else { method == self.stem.as_bytes() }
    }
}

impl NodeMethods {
    /// Creates the set of the methods in `only`, or of all if it is empty, without those in `except`.
    pub fn new<O, E>(only: O, except: E) -> Self
    where
        O: IntoIterator<Item: AsRef<str>>,
        E: IntoIterator<Item: AsRef<str>>,
    {
        NodeMethods {
            only: only.into_iter().map(|text| MethodPattern::new(text.as_ref())).collect(),
            except: except.into_iter().map(|text| MethodPattern::new(text.as_ref())).collect(),
        }
    }

    /// Reports whether the set contains every method.
    pub fn is_all(&self) -> bool {
        self.only.is_empty() && self.except.is_empty()
    }

    /// Reports whether the set contains a method that is sent as `sent` and metered as `metered`.
    pub fn takes(&self, sent: &[u8], metered: &[u8]) -> bool {
        let has =
            |list: &[MethodPattern]| list.iter().any(|pattern| pattern.is_of(sent) || pattern.is_of(metered));
        (self.only.is_empty() || has(&self.only)) && !has(&self.except)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_taken_by_either_of_its_names_and_an_exception_counts_more() {
        let some = NodeMethods::new(["a_*", "b"], ["a_x", "c_*"]);
        let takes = |sent: &str, metered: &str| some.takes(sent.as_bytes(), metered.as_bytes());
        assert!(takes("a_1", "a_1") && takes("z", "b") && takes("b", "z"));
        assert!(!takes("a_x", "a_x") && !takes("a_1", "a_x"), "by either name");
        assert!(!takes("bb", "bb") && !takes("B", "B"), "names are compared whole and with their case");
        let most = NodeMethods::new([""; 0], ["c_*"]);
        assert!(most.takes(b"a", b"a") && !most.takes(b"c_", b"c_"));
        assert!(NodeMethods::default().takes(b"", b"\xff"));
    }
}
