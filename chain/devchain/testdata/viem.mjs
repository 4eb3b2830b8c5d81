// Drives a dev chain with viem, as an application would.
// Arguments: node_modules directory, RPC URL, private key, token address.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, url, key, token] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { createPublicClient, createWalletClient, http, webSocket, parseAbi, parseEther } = require("viem");
const { privateKeyToAccount } = require("viem/accounts");
const { foundry } = require("viem/chains");

const account = privateKeyToAccount(key);
const reader = createPublicClient({ chain: foundry, transport: http(url), pollingInterval: 20 });
const writer = createWalletClient({ account, chain: foundry, transport: http(url) });
const abi = parseAbi([
  "function faucet(address to, uint256 amount)",
  "function balanceOf(address) view returns (uint256)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "error FaucetCapExceeded(uint256 asked, uint256 cap)",
]);

assert.equal(await reader.getChainId(), 31337);

const hash = await writer.writeContract({ address: token, abi, functionName: "faucet", args: [account.address, 5_000_000n] });
const receipt = await reader.waitForTransactionReceipt({ hash });
assert.equal(receipt.status, "success");
// At the receipt's block: "latest" moves a moment after the receipt is there.
assert.equal(await reader.readContract({ address: token, abi, functionName: "balanceOf", args: [account.address], blockNumber: receipt.blockNumber }), 5_000_000n);

const logs = await reader.getContractEvents({ address: token, abi, eventName: "Transfer", fromBlock: 0n });
assert.equal(logs.length, 1);
assert.equal(logs[0].args.value, 5_000_000n);

await assert.rejects(
  writer.writeContract({ address: token, abi, functionName: "faucet", args: [account.address, 10n ** 18n] }),
  /FaucetCapExceeded/,
);

// The balance before the transfer is still there to be read.
const before = await reader.getBalance({ address: account.address });
const sent = await writer.sendTransaction({ to: token.replace(/.$/, "f"), value: parseEther("1") });
const { blockNumber } = await reader.waitForTransactionReceipt({ hash: sent });
assert.equal(await reader.getBalance({ address: account.address, blockNumber: blockNumber - 1n }), before);
const proof = await reader.getProof({ address: token, storageKeys: ["0x0000000000000000000000000000000000000000000000000000000000000000"] });
assert.ok(proof.accountProof.length > 0);

const live = createPublicClient({ chain: foundry, transport: webSocket(url.replace("http", "ws")) });
const next = new Promise((resolve, reject) => {
  live.watchBlockNumber({ emitOnBegin: false, onBlockNumber: resolve, onError: reject });
});
assert.ok(await live.getBlockNumber() >= blockNumber);
// Nothing says when the subscription stands, so that blocks are mined until one is told.
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
let told;
while (told === undefined) {
  await reader.request({ method: "evm_mine" });
  told = await Promise.race([next, pause()]);
}
assert.ok(told > blockNumber);

console.log("viem ok");
process.exit(0); // the WebSocket would keep the process alive
