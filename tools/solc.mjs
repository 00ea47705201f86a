#!/usr/bin/env node
// The npm compiler behind the command line that forge and slither call: `--version`, and `--standard-json` on stdin.
import { readFileSync } from "node:fs";
import solc from "solc";

if (process.argv.includes("--version")) {
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${solc.version()}`);
} else {
  process.stdout.write(solc.compile(readFileSync(0, "utf8")));
}
