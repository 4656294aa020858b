//! The differences between the daemons of the UTXO chains.

/// A hash in the byte order of its computation; it is shown reversed.
pub(crate) type Hash = [u8; 32];

/// The software of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bitcoin Core 27.
    Btc,
    /// Litecoin Core 0.21.
    Ltc,
    /// Bitcoin Cash Node 28.
    Bch,
    /// Dogecoin Core 1.14.
    Doge,
    /// Dash Core 22.
    Dash,
    /// Elements 23.
    Liquid,
}

/// The constants of one chain.
#[derive(Debug)]
pub(crate) struct Coin {
    /// The path name at the gateway.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The name of the chain in `getblockchaininfo`.
    pub(crate) chain: &'static str,
    /// The height at the epoch of the simulated chains.
    pub(crate) base: u64,
    /// The version of the daemon, as a number and as peers see it.
    pub(crate) version: (u32, &'static str),
    pub(crate) protocol: u32,
    pub(crate) services: (&'static str, &'static [&'static str]),
    /// The target of the proof of work in compact form, the same for all blocks.
    pub(crate) bits: u32,
    /// The version of blocks.
    pub(crate) block_version: u32,
    /// The block reward, in 10^-8 coins.
    pub(crate) reward: u64,
    /// The first byte of addresses that pay to a key hash and to a script hash.
    pub(crate) prefixes: (u8, u8),
    /// The human-readable part of its bech32 or CashAddr addresses; empty if it has none.
    pub(crate) hrp: &'static str,
    /// The minimum fee for 1,000 bytes and the recommended one, in 10^-8 coins.
    pub(crate) fees: (u64, u64),
    /// A height and the hash of the network's block there, by which clients identify the network.
    pub(crate) known: (u64, &'static str),
}

impl Kind {
    /// Reports whether transactions have witnesses.
    pub(crate) fn segwit(self) -> bool {
        matches!(self, Kind::Btc | Kind::Ltc | Kind::Liquid)
    }

    /// Reports whether a block can be shown with the outputs that its transactions spend (Bitcoin Core and Elements
    /// since 23, Bitcoin Cash Node since 24).
    pub(crate) fn tells_spent_outputs(self) -> bool {
        matches!(self, Kind::Btc | Kind::Bch | Kind::Liquid)
    }

    /// Reports whether scripts are shown with one `address` (Bitcoin Core since 22) instead of a list.
    pub(crate) fn single_address(self) -> bool {
        matches!(self, Kind::Btc | Kind::Dash | Kind::Liquid)
    }
}

/// The chains, in the order of the specification.
pub(crate) static COINS: [Coin; 6] = [
    Coin {
        name: "btc",
        kind: Kind::Btc,
        chain: "main",
        base: 930_000,
        version: (270_100, "/Satoshi:27.1.0/"),
        protocol: 70_016,
        services: ("0000000000000c09", &["NETWORK", "WITNESS", "NETWORK_LIMITED", "P2P_V2"]),
        bits: 0x1702_3a04,
        block_version: 0x2000_0000,
        reward: 312_500_000,
        prefixes: (0x00, 0x05),
        hrp: "bc",
        fees: (1_000, 12_000),
        known: (478_559, "00000000000000000019f112ec0a9982926f1258cdcc558dd7c3b7e5dc7fa148"),
    },
    Coin {
        name: "ltc",
        kind: Kind::Ltc,
        chain: "main",
        base: 3_030_000,
        version: (210_400, "/LitecoinCore:0.21.4/"),
        protocol: 70_017,
        services: ("0000000001000409", &["NETWORK", "WITNESS", "NETWORK_LIMITED", "MWEB"]),
        bits: 0x1934_1fca,
        block_version: 0x2000_0000,
        reward: 625_000_000,
        prefixes: (0x30, 0x32),
        hrp: "ltc",
        fees: (1_000, 10_000),
        known: (0, "12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2"),
    },
    Coin {
        name: "bch",
        kind: Kind::Bch,
        chain: "main",
        base: 930_000,
        version: (28_000_100, "/Bitcoin Cash Node:28.0.1(EB32.0)/"),
        protocol: 70_016,
        services: ("0000000000000425", &["NETWORK", "BLOOM", "BITCOIN_CASH", "NETWORK_LIMITED"]),
        bits: 0x1801_d4f4,
        block_version: 0x2000_0000,
        reward: 312_500_000,
        prefixes: (0x00, 0x05),
        hrp: "bitcoincash",
        fees: (1_000, 1_000),
        known: (478_559, "000000000000000000651ef99cb9fcbe0dadde1d424bd9f15ff20136191a5eec"),
    },
    Coin {
        name: "doge",
        kind: Kind::Doge,
        chain: "main",
        base: 6_030_000,
        version: (1_140_900, "/Shibetoshi:1.14.9/"),
        protocol: 70_015,
        services: ("0000000000000005", &["NETWORK", "BLOOM"]),
        bits: 0x1a00_6a3c,
        // Chain 0x62, merged mining, version 4.
        block_version: 0x0062_0104,
        reward: 1_000_000_000_000,
        prefixes: (0x1e, 0x16),
        hrp: "",
        fees: (100_000, 1_000_000),
        known: (0, "1a91e3dace36e2be3bf030a65679fe821aa1d6ef92e7c9902eb318182c355691"),
    },
    Coin {
        name: "dash",
        kind: Kind::Dash,
        chain: "main",
        base: 2_395_000,
        version: (220_103, "/Dash Core:22.1.3/"),
        protocol: 70_237,
        services: ("0000000000000c05", &["NETWORK", "BLOOM", "NETWORK_LIMITED", "HEADERS_COMPRESSED"]),
        bits: 0x1936_5a10,
        block_version: 0x2000_0000,
        reward: 177_000_000,
        prefixes: (0x4c, 0x10),
        hrp: "",
        fees: (1_000, 1_000),
        known: (0, "00000ffd590b1485b3caadc19b22e6379c733355108f107a430458cdf3407ab6"),
    },
    Coin {
        name: "liquid",
        kind: Kind::Liquid,
        chain: "liquidv1",
        base: 3_700_000,
        version: (230_303, "/Elements Core:23.3.3/"),
        protocol: 70_016,
        services: ("0000000000000409", &["NETWORK", "WITNESS", "NETWORK_LIMITED"]),
        bits: 0x207f_ffff,
        block_version: 0x2000_0000,
        reward: 100_000,
        prefixes: (0x39, 0x27),
        hrp: "ex",
        fees: (100, 100),
        known: (0, "1466275836220db2944ca059a3a10ef6fd2ea684b0688d2c379296888a206003"),
    },
];

/// The hash160 of the public key whose secret key is 1. Every block pays to it, so that every client can spend.
pub(crate) const DEVELOPER: [u8; 20] = [
    0x75, 0x1e, 0x76, 0xe8, 0x19, 0x91, 0x96, 0xd4, 0x54, 0x94, 0x1c, 0x45, 0xd1, 0xb3, 0xa3, 0x23, 0xf1,
    0x43, 0x3b, 0xd6,
];

/// Liquid's bitcoin, as an explicit asset: a 1 before its id in computation order.
pub(crate) const LIQUID_BITCOIN: [u8; 33] = [
    0x01, 0x6d, 0x52, 0x1c, 0x38, 0xec, 0x1e, 0xa1, 0x57, 0x34, 0xae, 0x22, 0xb7, 0xc4, 0x60, 0x64, 0x41,
    0x28, 0x29, 0xc0, 0xd0, 0x57, 0x9f, 0x0a, 0x71, 0x3d, 0x1c, 0x04, 0xed, 0xe9, 0x79, 0x02, 0x6f,
];
