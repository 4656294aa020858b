//! Rank bars: the largest of many, each with its number, and the sum of the others.

use super::number::{coordinate, grouped};
use askama::Template;

#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "chart/rank.html")]
pub(crate) struct Rank {
    pub(super) bars: Vec<RankBar>,
    /// The number and the sum of the others.
    pub(super) others: Option<(String, String)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RankBar {
    pub(super) name: String,
    pub(super) context: String,
    pub(super) href: Option<String>,
    pub(super) value: String,
    pub(super) width: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ranked {
    pub(crate) name: String,
    /// A text that distinguishes it from other items with the same name.
    pub(crate) context: String,
    pub(crate) href: Option<String>,
    pub(crate) value: u64,
}

impl Rank {
    /// Ranks the `most` largest of `all`. Items with a count of 0 are left out.
    pub(crate) fn of(mut all: Vec<Ranked>, most: usize) -> Self {
        all.retain(|one| one.value > 0);
        all.sort_by(|one, other| {
            let name = |one: &Ranked| (one.name.clone(), one.context.clone());
            other.value.cmp(&one.value).then_with(|| name(one).cmp(&name(other)))
        });
        let rest = all.split_off(all.len().min(most));
        let max = all.first().map_or(1, |first| first.value);
        let bar = |one: Ranked| RankBar {
            width: coordinate(one.value as f64 / max as f64 * 100.0),
            value: grouped(one.value),
            name: one.name,
            context: one.context,
            href: one.href,
        };
        let sum = rest.iter().fold(0u64, |sum, one| sum.saturating_add(one.value));
        let others = match rest.len() {
            0 => None,
            1 => Some(("1 other".to_owned(), grouped(sum))),
            count => Some((format!("{count} others"), grouped(sum))),
        };
        Rank { bars: all.into_iter().map(bar).collect(), others }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bars.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranked(name: &str, value: u64) -> Ranked {
        Ranked { name: name.into(), context: "eth".into(), href: None, value }
    }

    #[test]
    fn the_largest_is_first_and_the_rest_is_added_up() {
        let rank = Rank::of(
            vec![ranked("c", 0), ranked("a", 5), ranked("b", 20), ranked("e", 1), ranked("d", 1)],
            2,
        );
        let bars: Vec<_> = rank.bars.iter().map(|bar| [&bar.name, &bar.width, &bar.value]).collect();
        assert_eq!(bars, [["b", "100", "20"], ["a", "25", "5"]]);
        assert_eq!(rank.others, Some(("2 others".into(), "2".into())));
        let html = rank.render().unwrap();
        assert!(
            html.contains("<rect width=\"25%\" height=\"100%\"/>") && html.contains("<span>2 others</span>"),
            "{html}"
        );
        assert!(Rank::of(vec![ranked("a", 0)], 3).is_empty());
        assert_eq!(
            Rank::of(vec![ranked("a", 1), ranked("b", 1)], 1).others,
            Some(("1 other".into(), "1".into()))
        );
    }

    #[test]
    fn names_are_text_and_lead_on() {
        let one = Ranked { href: Some("usage?method=a&b".into()), ..ranked("<b>", 1) };
        let html = Rank::of(vec![one], 3).render().unwrap();
        assert!(html.contains("<a class=\"id\" href=\"usage?method=a&#38;b\">&#60;b&#62;</a>"), "{html}");
    }

    proptest! {
        // Shows (Dashboard).
        #[test]
        fn nothing_is_lost(values in proptest::collection::vec(0u64..1_000_000, 0..30), most in 0usize..12) {
            let rank = Rank::of(values.iter().map(|value| ranked("m", *value)).collect(), most);
            let number = |text: &String| text.replace(',', "").parse::<u64>().unwrap();
            let shown: u64 = rank.bars.iter().map(|bar| number(&bar.value)).sum();
            let others = rank.others.as_ref().map_or(0, |(_, value)| number(value));
            prop_assert_eq!(shown + others, values.iter().sum::<u64>());
            prop_assert!(rank.bars.len() <= most);
            for bar in &rank.bars {
                prop_assert!((0.0..=100.0).contains(&bar.width.parse::<f64>().unwrap()));
            }
        }
    }
}
