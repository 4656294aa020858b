// Solves the challenge of a registration, in a worker, so that the page goes on answering: finds the number for which the
// SHA-256 of salt and number equals the challenge.
//
// The hash is computed here: the browser's own function returns a promise for each number, which takes longer than the
// hash, and browsers do not provide it over plain HTTP.
"use strict";

// The first 32 bits of the fractional parts of the square and cube roots of the first primes (FIPS 180-4).
const primes = [];
for (let n = 2; primes.length < 64; n++) {
  if (primes.every((prime) => n % prime)) primes.push(n);
}
const fraction = (root) => Math.floor((root % 1) * 2 ** 32);
const START = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = Uint32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));

const words = new Int32Array(64);

function rotated(word, by) {
  return (word >>> by) | (word << (32 - by));
}

// Adds one block of 64 bytes to the state.
function block(state, bytes, at) {
  for (let i = 0; i < 16; i++, at += 4) {
    words[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
  }
  for (let i = 16; i < 64; i++) {
    const x = words[i - 15];
    const y = words[i - 2];
    const small = rotated(x, 7) ^ rotated(x, 18) ^ (x >>> 3);
    const large = rotated(y, 17) ^ rotated(y, 19) ^ (y >>> 10);
    words[i] = (words[i - 16] + small + words[i - 7] + large) | 0;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const choice = (e & f) ^ (~e & g);
    const most = (a & b) ^ (a & c) ^ (b & c);
    const one = (h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + choice + ROUNDS[i] + words[i]) | 0;
    const two = ((rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + most) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

// Returns a function that hashes an ASCII salt followed by a number.
function hash(salt) {
  const state = new Int32Array(8);
  const room = (salt.length + 16 + 9 + 63) & ~63;
  const bytes = new Uint8Array(room);
  for (let i = 0; i < salt.length; i++) bytes[i] = salt.charCodeAt(i);
  return (number) => {
    const digits = String(number);
    const length = salt.length + digits.length;
    const end = (length + 9 + 63) & ~63;
    bytes.fill(0, salt.length);
    for (let i = 0; i < digits.length; i++) bytes[salt.length + i] = digits.charCodeAt(i);
    bytes[length] = 0x80;
    bytes[end - 2] = (length * 8) >>> 8;
    bytes[end - 1] = length * 8;
    state.set(START);
    for (let at = 0; at < end; at += 64) block(state, bytes, at);
    return state;
  };
}

// Numbers between two reports.
const STRETCH = 4096;

addEventListener("message", ({ data: challenge }) => {
  const sought = Int32Array.from(challenge.challenge.match(/.{8}/g), (word) => parseInt(word, 16));
  const hashed = hash(challenge.salt);
  for (let number = 0; number <= challenge.maxnumber; number++) {
    const found = hashed(number);
    if (found[0] === sought[0] && found.every((word, i) => word === sought[i])) {
      const { algorithm, salt, signature } = challenge;
      postMessage({ solution: btoa(JSON.stringify({ algorithm, challenge: challenge.challenge, number, salt, signature })) });
      return;
    }
    if (number % STRETCH === STRETCH - 1) postMessage({ part: number / challenge.maxnumber });
  }
  throw new Error("no number solves the challenge");
});
