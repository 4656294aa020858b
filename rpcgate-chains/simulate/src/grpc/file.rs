//! The content of `.proto` files.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Double,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Bool,
    Text,
    Bytes,
    /// A message, by its full name.
    Message(String),
    /// An enumeration, by its full name.
    Enumeration(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageField {
    pub(crate) name: String,
    pub(crate) number: u64,
    pub(crate) kind: FieldKind,
    pub(crate) is_list: bool,
}

/// A message. Names of types are full names, except in [`MessageType::name`] and [`EnumType::name`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MessageType {
    pub(crate) name: String,
    pub(crate) fields: Vec<MessageField>,
    pub(crate) messages: Vec<MessageType>,
    pub(crate) enums: Vec<EnumType>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EnumType {
    pub(crate) name: String,
    pub(crate) values: Vec<(String, u64)>,
}

/// A unary method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GrpcMethod {
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) output: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GrpcService {
    pub(crate) name: String,
    pub(crate) methods: Vec<GrpcMethod>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProtoFile {
    pub(crate) path: &'static str,
    pub(crate) package: String,
    pub(crate) imports: Vec<String>,
    pub(crate) messages: Vec<MessageType>,
    pub(crate) enums: Vec<EnumType>,
    pub(crate) services: Vec<GrpcService>,
}
