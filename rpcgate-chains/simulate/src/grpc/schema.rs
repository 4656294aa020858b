//! The messages and methods of a node's gRPC services.

use super::descriptor::descriptors;
use super::file::{EnumType, FieldKind, GrpcMethod, MessageField, MessageType, ProtoFile};
use super::parse::parse;
use std::collections::{HashMap, HashSet};

/// The form of bytes and large numbers in a node's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonForm {
    /// The canonical JSON form of Protocol Buffers: bytes in base64, 64-bit numbers as text. The listed members are
    /// decimals with 18 digits after the point, which messages write without the point.
    Canonical { decimals: &'static [&'static str] },
    /// The form of java-tron: bytes in hex, numbers as numbers. A member `x_hex` is the encoding of the message `x`.
    Hex,
}

#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) form: JsonForm,
    messages: HashMap<String, Vec<MessageField>>,
    enums: HashMap<String, Vec<(String, u64)>>,
    /// The methods by path: `/package.Service/Method`.
    methods: HashMap<String, GrpcMethod>,
    services: Vec<String>,
    descriptors: Vec<u8>,
}

impl Schema {
    /// Reads `.proto` files, each a path and a text.
    ///
    /// # Errors
    /// A description of the mistake: a syntax outside the subset that these files use, or an unknown type.
    pub(crate) fn read(files: &[(&'static str, &str)], form: JsonForm) -> Result<Self, String> {
        let mut files: Vec<ProtoFile> =
            files.iter().map(|(path, text)| parse(path, text)).collect::<Result<_, _>>()?;
        let mut names = TypeNames::default();
        for file in &files {
            names.add(&file.package, &file.messages, &file.enums);
        }
        for file in &mut files {
            let package = file.package.clone();
            names.resolve_all(&package, &mut file.messages)?;
            for method in file.services.iter_mut().flat_map(|service| &mut service.methods) {
                for name in [&mut method.input, &mut method.output] {
                    *name = names.resolve(&package, name).ok_or_else(|| format!("no type {name}"))?;
                }
            }
        }
        let mut schema = Schema {
            form,
            messages: HashMap::new(),
            enums: HashMap::new(),
            methods: HashMap::new(),
            services: Vec::new(),
            descriptors: descriptors(&files),
        };
        for file in files {
            schema.add(&file.package, file.messages, file.enums);
            for service in file.services {
                let name = format!("{}.{}", file.package, service.name);
                for method in service.methods {
                    schema.methods.insert(format!("/{name}/{}", method.name), method);
                }
                schema.services.push(name);
            }
        }
        Ok(schema)
    }

    fn add(&mut self, scope: &str, messages: Vec<MessageType>, enums: Vec<EnumType>) {
        for item in enums {
            self.enums.insert(format!("{scope}.{}", item.name), item.values);
        }
        for item in messages {
            let name = format!("{scope}.{}", item.name);
            self.add(&name, item.messages, item.enums);
            self.messages.insert(name, item.fields);
        }
    }

    /// Returns the method at a path, `/package.Service/Method`.
    pub(crate) fn method(&self, path: &str) -> Option<&GrpcMethod> {
        self.methods.get(path)
    }

    pub(crate) fn services(&self) -> &[String] {
        &self.services
    }

    /// Returns all files as an encoded `google.protobuf.FileDescriptorSet`.
    pub(crate) fn descriptors(&self) -> &[u8] {
        &self.descriptors
    }

    pub(super) fn fields(&self, message: &str) -> Option<&[MessageField]> {
        self.messages.get(message).map(Vec::as_slice)
    }

    /// Returns the names and numbers of an enumeration.
    pub(super) fn values(&self, name: &str) -> &[(String, u64)] {
        self.enums.get(name).map_or(&[], Vec::as_slice)
    }
}

#[derive(Debug, Default)]
struct TypeNames {
    messages: HashSet<String>,
    enums: HashSet<String>,
}

impl TypeNames {
    fn add(&mut self, scope: &str, messages: &[MessageType], enums: &[EnumType]) {
        self.enums.extend(enums.iter().map(|item| format!("{scope}.{}", item.name)));
        for item in messages {
            let name = format!("{scope}.{}", item.name);
            self.add(&name, &item.messages, &item.enums);
            self.messages.insert(name);
        }
    }

    /// Returns the full name of a type that is written as `name` within `scope`: the innermost scope that has it
    /// counts. A leading point marks a full name.
    fn resolve(&self, scope: &str, name: &str) -> Option<String> {
        let is_known = |name: &String| self.messages.contains(name) || self.enums.contains(name);
        if let Some(full) = name.strip_prefix('.') {
            return Some(full.to_owned()).filter(is_known);
        }
        let mut scope = scope;
        loop {
            let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
            if is_known(&full) {
                return Some(full);
            }
            if scope.is_empty() {
                return None;
            }
            scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
        }
    }

    fn resolve_all(&self, scope: &str, messages: &mut [MessageType]) -> Result<(), String> {
        for message in messages {
            let inner = format!("{scope}.{}", message.name);
            for field in &mut message.fields {
                if let FieldKind::Message(name) = &field.kind {
                    let full = self.resolve(&inner, name);
                    let full = full.ok_or_else(|| format!("{inner}.{}: no type {name}", field.name))?;
                    field.kind = if self.enums.contains(&full) {
                        FieldKind::Enumeration(full)
                    } else {
                        FieldKind::Message(full)
                    };
                }
            }
            self.resolve_all(&inner, &mut message.messages)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 2] = [
        (
            "a.proto",
            "package a.b; message M { message N {} enum E { Z = 0; } N n = 1; E e = 2; a.c.O o = 3; }",
        ),
        ("c.proto", "package a.c; message O {} service S { rpc Do(O) returns (.a.b.M); }"),
    ];

    #[test]
    fn the_innermost_type_of_a_name_counts() {
        let schema = Schema::read(&FILES, JsonForm::Hex).unwrap();
        let kinds: Vec<_> = schema.fields("a.b.M").unwrap().iter().map(|field| &field.kind).collect();
        assert_eq!(
            kinds,
            [
                &FieldKind::Message("a.b.M.N".into()),
                &FieldKind::Enumeration("a.b.M.E".into()),
                &FieldKind::Message("a.c.O".into())
            ]
        );
        let method = schema.method("/a.c.S/Do").unwrap();
        assert_eq!((method.input.as_str(), method.output.as_str()), ("a.c.O", "a.b.M"));
        assert_eq!(schema.services(), ["a.c.S"]);
        assert!(schema.method("/a.c.S/do").is_none());
    }

    #[test]
    fn a_type_that_is_nowhere_is_an_error() {
        let error = Schema::read(&FILES[..1], JsonForm::Hex).unwrap_err();
        assert_eq!(error, "a.b.M.o: no type a.c.O");
    }
}
