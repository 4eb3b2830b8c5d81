// Compiles the contracts and writes their artifacts; with --check it compares
// instead, and exits with 1 when a committed artifact is not what the sources
// give. It needs the pinned compiler: npm ci in ../../.ci/npm.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const solc = createRequire(join(here, "../../.ci/npm/"))("solc");
const pinned = "0.8.37";

// Artifact path, main source, and the sources that it imports.
const contracts = [
  ["artifacts/SchemaRegistry.json", "SchemaRegistry.sol", "Common.sol"],
  ["artifacts/EAS.json", "EAS.sol", "Common.sol", "SchemaRegistry.sol"],
  ["artifacts/TestUSDC.json", "TestUSDC.sol"],
  ["testdata/TestNFT.json", "testdata/TestNFT.sol"],
  ["testdata/TestMachine.json", "testdata/TestMachine.sol"],
];

// No metadata hash and no CBOR trailer: the bytecode depends on the sources and
// the compiler, not on paths or comments.
const settings = {
  evmVersion: "prague",
  optimizer: { enabled: true, runs: 200 },
  metadata: { bytecodeHash: "none", appendCBOR: false },
  outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
};

function source(path) {
  return readFileSync(join(here, path), "utf8");
}

// sourceHash is the SHA-256 of the sources in the order listed, each preceded by
// "path\n"; the Go test computes the same.
function sourceHash(paths) {
  const h = createHash("sha256");
  for (const p of paths) h.update(p + "\n").update(source(p));
  return "0x" + h.digest("hex");
}

function compile(paths) {
  const sources = Object.fromEntries(paths.map((p) => [p, { content: source(p) }]));
  const out = JSON.parse(solc.compile(JSON.stringify({ language: "Solidity", sources, settings })));
  // Warnings stop the build, except that selfdestruct is deprecated: a test needs it.
  const problems = (out.errors ?? []).filter((e) => e.errorCode !== "5159" || !paths[0].startsWith("testdata/"));
  if (problems.length) throw new Error(problems.map((e) => e.formattedMessage).join("\n"));
  const name = paths[0].replace(/^.*\//, "").replace(/\.sol$/, "");
  const { abi, evm } = out.contracts[paths[0]][name];
  return {
    contractName: name,
    solc: solc.version(),
    settings: { evmVersion: settings.evmVersion, optimizer: settings.optimizer, metadata: settings.metadata },
    sources: paths,
    sourceHash: sourceHash(paths),
    abi,
    bytecode: "0x" + evm.bytecode.object,
    deployedBytecode: "0x" + evm.deployedBytecode.object,
  };
}

if (!solc.version().startsWith(pinned + "+")) {
  throw new Error(`solc is ${solc.version()}, the contracts are pinned to ${pinned}`);
}
const check = process.argv.includes("--check");
let stale = 0;
for (const [artifact, ...paths] of contracts) {
  const want = JSON.stringify(compile(paths), null, 1) + "\n";
  if (!check) {
    writeFileSync(join(here, artifact), want);
  } else if (source(artifact) !== want) {
    console.error(`${artifact} is stale: run node chain/contracts/build.mjs`);
    stale++;
  }
}
if (stale) process.exit(1);
console.log(check ? "artifacts match the sources" : "artifacts written");
