//! The subset of the `.proto` language, version 3, that the files of this crate use: messages, enumerations and unary
//! methods, without maps, options and `oneof`.

use super::file::{EnumType, FieldKind, GrpcMethod, GrpcService, MessageField, MessageType, ProtoFile};

/// Parses the file at `path`. Names of types stay as written.
///
/// # Errors
/// The path and the mistake.
pub(super) fn parse(path: &'static str, text: &str) -> Result<ProtoFile, String> {
    let mut words = Words { rest: words(text) };
    let mut file = ProtoFile { path, ..ProtoFile::default() };
    while let Some(word) = words.take() {
        match word {
            "syntax" => {
                words.expect("=")?;
                words.expect("\"proto3\"")?;
                words.expect(";")?;
            }
            "package" => {
                file.package = words.name()?;
                words.expect(";")?;
            }
            "import" => {
                file.imports.push(words.name()?.trim_matches('"').to_owned());
                words.expect(";")?;
            }
            "message" => file.messages.push(message(&mut words)?),
            "enum" => file.enums.push(enumeration(&mut words)?),
            "service" => file.services.push(service(&mut words)?),
            other => return Err(format!("{path}: unexpected {other}")),
        }
    }
    Ok(file)
}

/// Returns the words of a text: names with their points, numbers, strings with their quotes, and single signs.
fn words(text: &str) -> std::vec::IntoIter<&str> {
    let mut out = Vec::new();
    for line in text.lines() {
        let mut line = line.split_once("//").map_or(line, |(code, _)| code).trim();
        while let Some(first) = line.chars().next() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            let end = match first {
                '"' => line[1..].find('"').map_or(line.len(), |at| at + 2),
                c if is_name(c) => line.find(|c| !is_name(c)).unwrap_or(line.len()),
                c => c.len_utf8(),
            };
            let (word, rest) = line.split_at(end);
            out.push(word);
            line = rest.trim_start();
        }
    }
    out.into_iter()
}

struct Words<'a> {
    rest: std::vec::IntoIter<&'a str>,
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    fn next(&mut self) -> Result<&'a str, String> {
        self.take().ok_or_else(|| "unexpected end".to_owned())
    }

    fn name(&mut self) -> Result<String, String> {
        self.next().map(str::to_owned)
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        match self.next()? {
            word if word == wanted => Ok(()),
            word => Err(format!("expected {wanted}, found {word}")),
        }
    }

    /// Reads `= number ;`.
    fn number(&mut self) -> Result<u64, String> {
        self.expect("=")?;
        let word = self.next()?;
        let number = word.parse().map_err(|_| format!("expected a number, found {word}"))?;
        self.expect(";")?;
        Ok(number)
    }
}

fn kind(word: &str) -> FieldKind {
    match word {
        "double" => FieldKind::Double,
        "int32" => FieldKind::Int32,
        "int64" => FieldKind::Int64,
        "uint32" => FieldKind::Uint32,
        "uint64" => FieldKind::Uint64,
        "bool" => FieldKind::Bool,
        "string" => FieldKind::Text,
        "bytes" => FieldKind::Bytes,
        name => FieldKind::Message(name.to_owned()),
    }
}

fn message(words: &mut Words<'_>) -> Result<MessageType, String> {
    let mut out = MessageType { name: words.name()?, ..MessageType::default() };
    words.expect("{")?;
    loop {
        match words.next()? {
            "}" => return Ok(out),
            "message" => out.messages.push(message(words)?),
            "enum" => out.enums.push(enumeration(words)?),
            first => {
                let is_list = first == "repeated";
                let kind = kind(if is_list { words.next()? } else { first });
                out.fields.push(MessageField { name: words.name()?, number: words.number()?, kind, is_list });
            }
        }
    }
}

fn enumeration(words: &mut Words<'_>) -> Result<EnumType, String> {
    let mut out = EnumType { name: words.name()?, ..EnumType::default() };
    words.expect("{")?;
    loop {
        match words.next()? {
            "}" => return Ok(out),
            name => out.values.push((name.to_owned(), words.number()?)),
        }
    }
}

fn service(words: &mut Words<'_>) -> Result<GrpcService, String> {
    let mut out = GrpcService { name: words.name()?, ..GrpcService::default() };
    words.expect("{")?;
    loop {
        match words.next()? {
            "}" => return Ok(out),
            "rpc" => {
                let name = words.name()?;
                words.expect("(")?;
                let input = words.name()?;
                [")", "returns", "("].into_iter().try_for_each(|word| words.expect(word))?;
                let output = words.name()?;
                [")", ";"].into_iter().try_for_each(|word| words.expect(word))?;
                out.methods.push(GrpcMethod { name, input, output });
            }
            other => return Err(format!("expected rpc, found {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_the_files_use_is_parsed() {
        let text = "syntax = \"proto3\"; // a comment\npackage a.b;\nimport \"c/d.proto\";\nmessage M {\n  // more\n  \
                    enum E { X = 0; Y=7; }\n  repeated .c.D d = 1;\n  uint64 n=2;\n}\nservice S { rpc Do(M) returns (M); }";
        let file = parse("f.proto", text).unwrap();
        assert_eq!((file.package.as_str(), file.imports.as_slice()), ("a.b", &["c/d.proto".to_owned()][..]));
        let message = &file.messages[0];
        assert_eq!(message.enums[0].values, [("X".to_owned(), 0), ("Y".to_owned(), 7)]);
        assert_eq!(message.fields[0].kind, FieldKind::Message(".c.D".into()));
        assert!(message.fields[0].is_list && message.fields[1].kind == FieldKind::Uint64);
        assert_eq!(file.services[0].methods[0].name, "Do");
    }

    #[test]
    fn everything_else_is_an_error() {
        for (text, why) in [
            ("syntax = \"proto2\";", "expected \"proto3\", found \"proto2\""),
            ("option x = 1;", "f.proto: unexpected option"),
            ("message M { string s = 1", "unexpected end"),
            ("message M { string s = x; }", "expected a number, found x"),
            ("message M { map<string, string> m = 1; }", "expected =, found string"),
            ("service S { rpc Do(stream M) returns (M); }", "expected ), found M"),
            ("service S { option x = 1; }", "expected rpc, found option"),
        ] {
            assert_eq!(parse("f.proto", text).unwrap_err(), why, "{text}");
        }
    }
}
