//! The messages and methods of a node's gRPC services, compiled from `.proto` files.

use prost_reflect::{DescriptorPool, MessageDescriptor};
use protox::file::{File, FileResolver};
use std::collections::HashMap;

/// The form of bytes and large numbers in a node's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonForm {
    /// The canonical JSON form of Protocol Buffers: bytes in base64, 64-bit numbers as text. The listed members are
    /// decimals with 18 digits after the point, which messages write without the point.
    Canonical { decimals: &'static [&'static str] },
    /// The form of java-tron: bytes in hex, numbers as numbers. A member `x_hex` is the encoding of the message `x`.
    Hex,
}

/// A unary method, with the full names of its messages.
#[derive(Debug)]
pub(crate) struct GrpcMethod {
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) output: String,
}

#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) form: JsonForm,
    pool: DescriptorPool,
    /// The methods by path: `/package.Service/Method`.
    methods: HashMap<String, GrpcMethod>,
    services: Vec<String>,
    descriptors: Vec<u8>,
}

/// Files in memory, each a path and a text.
struct Files<'a>(&'a [(&'static str, &'static str)]);

impl FileResolver for Files<'_> {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let found = self.0.iter().find(|(path, _)| *path == name);
        let (_, text) = found.ok_or_else(|| protox::Error::file_not_found(name))?;
        File::from_source(name, text)
    }
}

impl Schema {
    /// Compiles `.proto` files, each a path and a text.
    ///
    /// # Errors
    /// The mistake of a file.
    pub(crate) fn read(
        files: &'static [(&'static str, &'static str)],
        form: JsonForm,
    ) -> Result<Self, protox::Error> {
        let mut compiler = protox::Compiler::with_file_resolver(Files(files));
        compiler.include_imports(true).open_files(files.iter().map(|(path, _)| path))?;
        let pool = compiler.descriptor_pool();
        let mut methods = HashMap::new();
        let mut services = Vec::new();
        for service in pool.services() {
            services.push(service.full_name().to_owned());
            for method in service.methods() {
                let name = method.name().to_owned();
                let path = format!("/{}/{}", service.full_name(), method.name());
                let input = method.input().full_name().to_owned();
                let output = method.output().full_name().to_owned();
                methods.insert(path, GrpcMethod { name, input, output });
            }
        }
        Ok(Schema { form, methods, services, descriptors: compiler.encode_file_descriptor_set(), pool })
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

    pub(super) fn message(&self, name: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[
        (
            "a.proto",
            "syntax = \"proto3\"; package a.b; import \"c.proto\"; \
             message M { message N {} enum E { Z = 0; } N n = 1; E e = 2; a.c.O o = 3; }",
        ),
        ("c.proto", "syntax = \"proto3\"; package a.c; message O {} service S { rpc Do(O) returns (O); }"),
    ];

    #[test]
    fn methods_are_found_by_their_paths() {
        let schema = Schema::read(FILES, JsonForm::Hex).unwrap();
        let method = schema.method("/a.c.S/Do").unwrap();
        assert_eq!((method.input.as_str(), method.output.as_str()), ("a.c.O", "a.c.O"));
        assert_eq!(schema.services(), ["a.c.S"]);
        assert!(schema.method("/a.c.S/do").is_none());
        assert!(schema.message("a.b.M.N").is_some());
        assert!(!schema.descriptors().is_empty());
    }

    #[test]
    fn a_file_that_is_missing_is_an_error() {
        let error = Schema::read(&FILES[..1], JsonForm::Hex).unwrap_err();
        assert!(error.to_string().contains("c.proto"), "{error}");
    }
}
