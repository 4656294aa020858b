//! The differences between the nodes of the EVM chains.

/// A 20-byte account address.
pub(crate) type Address = [u8; 20];
/// A 32-byte word: a hash, a topic, a storage value.
pub(crate) type Word = [u8; 32];

/// The address of the contract Multicall3, which is the same on every chain.
pub(crate) const MULTICALL: Address = address("ca11bde05977b3631167028862be2a173976ca11");

/// The members that a block has beyond the common ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// go-ethereum: withdrawals, blobs, beacon root, execution requests.
    Geth,
    /// BNB Smart Chain: as go-ethereum, empty withdrawals, no requests.
    Bsc,
    /// Polygon's Bor: none of them.
    Bor,
    /// Avalanche's coreth: blobs, and additional members.
    Coreth,
}

/// The constants of one chain.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) name: &'static str,
    /// The EIP-155 chain id, which is also the network id.
    pub(crate) chain_id: u64,
    /// The height at the epoch of the simulated chains.
    pub(crate) base: u64,
    pub(crate) client: &'static str,
    /// The average base fee per gas, in wei.
    pub(crate) base_fee: u64,
    /// The suggested priority fee per gas, in wei.
    pub(crate) tip: u64,
    pub(crate) gas_limit: u64,
    /// The address of the chain's only contract, an ERC-20 token.
    pub(crate) token: Address,
    pub(crate) token_name: &'static str,
    pub(crate) token_symbol: &'static str,
    pub(crate) token_decimals: u8,
    /// The distances of the `safe` and the `finalized` block from the newest block.
    pub(crate) lag: (u64, u64),
    /// The members of a block.
    pub(crate) layout: Layout,
}

/// The chains, in the order of the specification.
pub(crate) static NETWORKS: [Network; 4] = [
    Network {
        name: "eth",
        chain_id: 1,
        base: 24_130_000,
        client: "Geth/v1.16.7-stable-simulated/linux-amd64/go1.25.1",
        base_fee: 800_000_000,
        tip: 100_000_000,
        gas_limit: 45_000_000,
        token: address("a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
        token_name: "USD Coin",
        token_symbol: "USDC",
        token_decimals: 6,
        lag: (32, 64),
        layout: Layout::Geth,
    },
    Network {
        name: "bsc",
        chain_id: 56,
        base: 73_000_000,
        client: "Geth/v1.6.4-simulated/linux-amd64/go1.24.9",
        base_fee: 0,
        tip: 50_000_000,
        gas_limit: 75_000_000,
        token: address("8ac76a51cc950d9822d68b83fe1ad97b32cd580d"),
        token_name: "USD Coin",
        token_symbol: "USDC",
        token_decimals: 18,
        lag: (1, 2),
        layout: Layout::Bsc,
    },
    Network {
        name: "polygon",
        chain_id: 137,
        base: 81_000_000,
        client: "bor/v2.5.0-simulated/linux-amd64/go1.24.9",
        base_fee: 30_000_000_000,
        tip: 25_000_000_000,
        gas_limit: 45_000_000,
        token: address("3c499c542cef5e3811e1192ce70d8cc03d5c3359"),
        token_name: "USD Coin",
        token_symbol: "USDC",
        token_decimals: 6,
        lag: (2, 3),
        layout: Layout::Bor,
    },
    Network {
        name: "avax",
        chain_id: 43_114,
        base: 74_500_000,
        client: "v0.15.4-simulated",
        base_fee: 1_000_000_000,
        tip: 1_000_000,
        gas_limit: 20_000_000,
        token: address("b97ef9ef8734c71904d8002f8b6bc66dd9c48a6e"),
        token_name: "USD Coin",
        token_symbol: "USDC",
        token_decimals: 6,
        lag: (0, 0),
        layout: Layout::Coreth,
    },
];

/// The ten accounts that local development nodes fund (mnemonic "test test … junk"). Their secret keys are public, so
/// every client can send from them.
pub(crate) static DEVELOPERS: [Address; 10] = [
    address("f39fd6e51aad88f6f4ce6ab8827279cfffb92266"),
    address("70997970c51812dc3a010c7d01b50e0d17dc79c8"),
    address("3c44cdddb6a900fa2b585dd299e03d12fa4293bc"),
    address("90f79bf6eb2c4f870365e785982e1f101e93b906"),
    address("15d34aaf54267db7d7c367839aaf71a00a2c6a65"),
    address("9965507d1a55bcc2695c58ba16fb37d819b0a4dc"),
    address("976ea74026e726554db657fa54763abd0c3a0aa9"),
    address("14dc79964da2c08b23698b3d3cc7ca32193d9955"),
    address("23618e81e3f5cdf7f54c3d65f7fbc0abf5b21e8f"),
    address("a0ee7a142d267c1f36714e4a8f75612f20a79720"),
];

/// Reads 40 hex digits at compile time.
pub(crate) const fn address(hex: &str) -> Address {
    const fn digit(c: u8) -> u8 {
        match c {
            b'0'..=b'9' => c - b'0',
            _ => c - b'a' + 10,
        }
    }
    let text = hex.as_bytes();
    let mut out = [0; 20];
    let mut index = 0;
    while index < 20 {
        out[index] = digit(text[2 * index]) << 4 | digit(text[2 * index + 1]);
        index += 1;
    }
    out
}
