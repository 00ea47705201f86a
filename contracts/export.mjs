// Writes contracts/abi/<Name>.json from a fresh build; with --check, fails if a committed file differs.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import hre from "hardhat";

const NAMES = [
  "MockToken",
  "StakeManager",
  "PoolRegistry",
  "SubmissionLedger",
  "PayoutVault",
  "DisputeCourt",
  "VotingPanel",
  "PlantedFaults",
];
const here = path.dirname(fileURLToPath(import.meta.url));
const abiFolder = path.join(here, "abi");

async function soliditySources(folder) {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith(".sol"))
    .map((entry) => path.relative(here, path.join(entry.parentPath, entry.name)))
    .sort();
}

// One digest over all sources: a change anywhere asks for a new export.
async function sourceHash() {
  const hash = createHash("sha256");
  for (const name of await soliditySources(here)) {
    const text = await readFile(path.join(here, name));
    hash.update(`${name.split(path.sep).join("/")}\0${text.length}\0`).update(text);
  }
  return hash.digest("hex");
}

await hre.tasks.getTask("build").run({ force: true, quiet: true, noTests: true });
const solc = hre.config.solidity.profiles.default.compilers[0].version;
const sources = await sourceHash();
const stale = [];
await mkdir(abiFolder, { recursive: true });
for (const name of NAMES) {
  const artifact = await hre.artifacts.readArtifact(name);
  const document = { name, solc, sourcesSha256: sources, abi: artifact.abi, bytecode: artifact.bytecode };
  const fresh = `${JSON.stringify(document, null, 1)}\n`;
  const file = path.join(abiFolder, `${name}.json`);
  if (process.argv.includes("--check")) {
    const committed = await readFile(file, "utf8").catch(() => "");
    if (committed !== fresh) stale.push(path.relative(process.cwd(), file));
  } else {
    await writeFile(file, fresh);
  }
  const size = (artifact.deployedBytecode.length - 2) / 2;
  console.log(`${name}: ${size} bytes`);
}
if (stale.length > 0) {
  console.error(`stale: ${stale.join(", ")} (run npm run export)`);
  process.exit(1);
}
