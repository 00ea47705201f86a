import { fileURLToPath } from "node:url";
import { defineConfig } from "hardhat/config";

// The compiler comes from npm and is never downloaded at build time.
const soljson = fileURLToPath(import.meta.resolve("solc/soljson.js"));

export default defineConfig({
  solidity: {
    version: "0.8.37",
    path: soljson,
    settings: {
      // Transient storage (reentrancy guards) needs Cancun; nothing newer is used.
      evmVersion: "cancun",
      optimizer: { enabled: true, runs: 200 },
      metadata: { bytecodeHash: "none" },
    },
  },
  paths: {
    sources: "./contracts",
    tests: { solidity: "./tests/contracts" },
  },
  test: {
    solidity: {
      fsPermissions: { readFile: ["tests/vectors/chain.json"] },
      fuzz: { runs: 128 },
      invariant: { runs: 2, depth: 128, failOnRevert: false },
    },
  },
});
