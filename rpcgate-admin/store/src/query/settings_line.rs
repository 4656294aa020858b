//! The text form of operators' settings as lines.

use super::figures::{Figure, Figures};
use rpcgate_config::{moment_text, parse_moment};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{FigureUnit, Price};

/// The name of the price figure, which is written in US dollars.
const PRICE: &str = "price_per_cu";

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn unquoted(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

pub(super) fn at(time: Time) -> String {
    quoted(&moment_text(time))
}

pub(super) fn time_of(value: &str) -> Option<Time> {
    parse_moment(&unquoted(value)?)
}

pub(super) fn figure_lines(table: &str, figures: &Figures) -> Vec<(String, String)> {
    let given = |figure: Figure| {
        let value = figure.value?;
        let is_price = figure.of.unit == FigureUnit::Price;
        let value = if is_price { format!("{:?}", Price(value).usd()) } else { value.to_string() };
        Some((format!("{table}.{}", figure.of.name), value))
    };
    figures.list().into_iter().filter_map(given).collect()
}

/// Sets the figure with this name. Returns `None` if it does not exist, or does not permit the value.
pub(super) fn set_figure(figures: &mut Figures, name: &str, value: &str) -> Option<()> {
    let number = if name == PRICE { Price::from_usd(value.parse().ok()?)?.0 } else { value.parse().ok()? };
    figures.set(name, number).then_some(())
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::any_figures;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn figures_are_read_as_they_were_written(figures in any_figures()) {
            let mut read = Figures::default();
            for (key, value) in figure_lines("plans.free", &figures) {
                let name = key.strip_prefix("plans.free.").unwrap();
                prop_assert!(set_figure(&mut read, name, &value).is_some(), "{} = {}", key, value);
            }
            prop_assert_eq!(read, figures);
        }
    }

    #[test]
    fn texts_and_times_are_read_as_they_were_written() {
        for text in ["", "a \"b\" = c", "two\nlines", "Größe"] {
            assert_eq!(unquoted(&quoted(text)).as_deref(), Some(text));
            assert!(!quoted(text).contains('\n'), "a value is on one line");
        }
        let time = Time::from_micros(1_790_000_000_123_456);
        assert_eq!(time_of(&at(time)), Some(time));
        assert_eq!((unquoted("bare"), time_of("\"soon\"")), (None, None));
        assert_eq!(set_figure(&mut Figures::default(), "gold", "1"), None);
    }
}
