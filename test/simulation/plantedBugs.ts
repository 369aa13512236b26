export interface PlantedBug {
  readonly name: string;
  /** Below `src/`. */
  readonly file: string;
  /** A text that stands once in the file, and what becomes of it, as `git diff --word-diff` shows it: `[-gone-]{+new+}`. */
  readonly change: string;
  /** For what the simulation does not reach: the test that fails with the bug in place, and its file below `test/`. */
  readonly heldBy?: { readonly file: string; readonly test: string };
}

/** The source with the bug in it. Throws unless the text that it takes the place of stands there once. */
export function planted(source: string, { change, file, name }: PlantedBug): string {
  const before = change.replaceAll(/\{\+[^]*?\+\}/g, '').replaceAll(/\[-([^]*?)-\]/g, '$1');
  const after = change.replaceAll(/\[-[^]*?-\]/g, '').replaceAll(/\{\+([^]*?)\+\}/g, '$1');
  if (source.split(before).length !== 2)
    throw new Error(`${name}: ${file} does not hold the text once: ${before}`);
  return source.replace(before, () => after);
}

/** By their files: each change, with the test below `test/unit` that holds it; `%s` of a table of tests stands for any of them. */
const bugs: Readonly<Record<string, Readonly<Record<string, string | readonly [string, string]>>>> = {
  'storage/leveldb/writing/bookWriter.ts': {
    'progress is written before the data, in a batch of its own':
      '        [-putChanges(before, after, batch)-]{+const first = database.batch();\n        putChanges(before, after, first);\n        await first.write()+};',
    'the watermark is told before the batch is durable':
      '        {+book = after;\n        +}await write(() => batch.write());',
    'history is written before the live range': [
      "      [-if (line === 'live') waiting.unshift(next);\n      else -]waiting.push(next);",
      'storage/groupedCommits.test.ts: follow it one by one, the live range first, and each is told when it is durable',
    ],
    'what was staged is left out of the batch': 'const filled = [-taken ?? -]begun();',
    'what was staged is committed though the next batch does not carry it': [
      'if ([-!carried.has(entry)-]{+carried.size < 0+}) discardStaged();',
      'storage/levelStore.test.ts: carries what was staged, and stores nothing else of it',
    ],
    'not given back: the batch of a write that failed': [
      '[-using-]{+const+} batch =',
      'storage/storeLife.test.ts: batches are all given back, whatever fails before, in or after a write',
    ],
  },
  'storage/records/book/bookRecords.ts': {
    'blocks above the watermark are forgotten by a restart':
      'if (head !== undefined{+ && above.size > MAX_BLOCKS_ABOVE_WATERMARK+}) above.set(',
    'a restart forgets how far a range of history is': [
      'if (!records.has(record){+ && record.next === record.from+}) batch.put(',
      'storage/ranges.test.ts: a range %s by a process ending after %i writes is so when opened',
    ],
  },
  'storage/records/blocks/BlockEntryWriter.ts': {
    'of several places of a collection only the first in a block is kept':
      '    {+if (collectionIndex === 0) +}collection.seal(put);',
    'proofs: a block is stored without its proof': '[-      proof: block.proof,\n-]',
  },
  'storage/commitQueue.ts': {
    'what joined the next batch is left there when no other block follows':
      'while (waiting.length > 0 || [-next.blocks.length > 0 || -]mayPass())',
    'a block that does not fit into the next batch is forgotten':
      'waiting.slice({+isFull() ? count + 1 : +}count);',
    'what an earlier process left above a gap counts before the chain has borne it out':
      '=> store.hasHeight(height)[- && !doubted.has(height)-];',
    'the root of a spork is written without the record of the spork':
      'const sporks = await newSporks({ blocks{+: []+}, latestIndexedHeight });',
    'watermark jumps over a gap':
      '    [-while (writing.has(latestIndexedHeight + 1) || isConfirmed(latestIndexedHeight + 1))\n      latestIndexedHeight += 1-]{+latestIndexedHeight = Math.max(latestIndexedHeight, ...blocks.map(({ block }) => block.height))+};',
    'watermark does not pass over what is durable above a gap':
      'while (writing.has(latestIndexedHeight + 1)[- || isConfirmed(latestIndexedHeight + 1)-])',
  },
  'access/pool/sporks/sporkVerifier.ts': {
    'a spork that the table lacks is believed from a single node, whatever the others do':
      '    const witnesses = witnessesOf(claim){+.slice(0, 0)+};\n    if',
  },
  'access/pool/PoolMember.ts': {
    'the nodes of a spork are asked for heights above its end':
      'sporkRoots.find((root) => root > anchor{+ + 1_000_000+});',
  },
  'finality/forks/linkedBlocks.ts': {
    'the parent that the spork table names is not taken': 'rootParents.get([-height-]{+-1+});',
    'the last block of a spork is taken from whoever gives one':
      '(confirmed.get(height) ?? id) [-=== id-]{+!== undefined+};',
    'parent link not checked': 'tip === undefined || parentId [-=== tip.id-]{+!== undefined+} ||',
    'restart from the watermark + 2':
      'let next = window.latestIndexedHeight() + [-1-]{+(latestBlock() === undefined ? 1 : 2)+};',
  },
  'finality/blocks/finalizedBlocks.ts': {
    'the end of a spork is taken for the tip': [
      '[-rootHeight + TIP_HEIGHTS-]{+Math.min(rootHeight, 0)+});',
      'finality/forks.test.ts: at a spork: takes no block below a root that is in the table for one of the tip',
    ],
    'wake-up lost: the consumer is not told of a block':
      '    resolver.linkedAgain();[-\n    consumer.notify();-]',
    'blocks with status unknown are accepted':
      "[-        if (status === 'unknown') return resolver.drop(answer, 'orphaned', height);\n-]",
    // One seed of thousands has a lone node lie at such a height.
    'the last block of a range of history does not wait for its child': [
      'return height === stopHeight[- && (!needsBlockAbove || isUnserved())-];',
      'finality/rangeEnds.test.ts: is taken back where its child names another one',
    ],
    'the first block of a range of history may name any parent': [
      'dependencies.latestBlock()[- ?? below-];',
      'finality/rangeEnds.test.ts: is read once the block below is known, and must name that as its parent',
    ],
  },
  'jobqueue/pipeline/WorkSignal.ts': {
    'wake-up lost: a notification that comes while nobody waits': [
      'if (this.#wake === undefined) [-this.#pending = true-]{+return+};',
      'jobqueue/workSignal.test.ts: causes exactly one more pass for a notify that comes during a pass',
    ],
  },
  'jobqueue/consumer/JobConsumer.ts': {
    'wake-up lost: a mark left while jobs are handed out': [
      '      } while (this.#mayTurnAgain(){+ && this.#finished.any+});',
      'jobqueue/jobConsumer.test.ts: 1: a check that arrives as a pass reaches its end causes another pass',
    ],
  },
  'jobqueue/consumer/JobWindow.ts': {
    'one job more than may run at once': '      this.#running.size <{+=+} this.#maxProcessing &&',
  },
  'collections/JobProcessor.ts': {
    'done before the commit': '      {+queued.done();\n      +}const written = await this.#deps.indexer',
    'done twice': '      queued.done();{+\n      queued.done();+}',
    'a failure of the store is passed over': [
      '    this.#failed = true;\n[-    this.#deps.onFatal(error);\n-]',
      'collections/JobProcessor.test.ts: reports a failed commit to the owner once, and is done with nothing',
    ],
  },
  'collections/heights/Window.ts': {
    'the bytes of a durable height are not given back': '[-    this.count(record, -record.bytes);\n-]',
    // The live range is done sooner or later, and then the window is as wide as ever.
    'a window that is narrowed too far never lets a block become ready': [
      'Math.max([-LEAST_NARROWED_HEIGHTS-]{+1+}, Math.floor',
      'collections/Window.test.ts: Window begins less by its share, but a block and its child in any case',
    ],
    'one block above the window is asked for':
      'Math.min(this.heights, narrowed){+ + 1+}, this.target() ?? 0);',
    'byte budget ignored':
      '    if (this.[-#bytesInHand + bytes <= this.limitBytes-]{+limitBytes > 0+}) return true;',
    'every height that becomes the lowest missing one is admitted, however slow the disk is':
      'const lowest = [-this.latestIndexedHeight() + 1-]{+this.lowestCollecting()?.height ?? 0+};',
    'lowest missing height not admitted': 'return height <[-=-] lowest && this.#records',
  },
  'app/line/runIndexing.ts': {
    'wake-up lost: the reader of blocks is not told of a new head':
      '[-  listener.finalized.onRise(() => window.moved());\n-]',
  },
  'collections/indexer/BlockCollectionIndexer.ts': {
    'wake-up lost: the reader of blocks is not told that the window moved': '[-        window.moved();\n-]',
  },
  'collections/heights/MissingCollectionQueue.ts': {
    'reverse index not cleaned: an id that came stays wanted':
      'const takers = wanted.heights.[-splice-]{+slice+}(0);',
    'an id that two heights want is given to one of them':
      'const takers = wanted.heights.splice(0){+.slice(0, 1)+};',
  },
  'flow/verification/verifyCollections.ts': {
    'system chunk kept: it counts as one of the guaranteed': 'data.chunks.length === expected.length[- + 1-]',
    'hash check skipped':
      '      if [-(received.id === expectedId) return received-]{+(this.lastId !== expectedId || true) return { ...received, id: expectedId }+};',
  },
  'access/node/BlockProofs.ts': {
    'proofs: a block that nothing proves is taken from whoever gives it first': [
      'if (!this.#areNodesExhausted(height, node, known){+ && height < 0+})',
      'access/blockProofs.test.ts: is refused while a healthy node may give a better one, however often it comes: %s',
    ],
    'proofs: one node that cannot prove a block speaks for all': [
      '.[-every-]{+some+}((server) =>',
      'access/blockProofs.test.ts: is refused while a healthy node may give a better one, however often it comes: %s',
    ],
    'proofs: a node that comes back is not asked for what the others cannot prove': [
      'known[-?.nodes.has(server) === true-]{+ !== undefined+}',
      'access/blockProofs.test.ts: is refused again once a node is back that may give a better one',
    ],
    'proofs: what cannot be proven is taken for good, whatever is proven later': [
      '[-    if (this.#unprovable.size > 0) this.#unprovable.delete(this.#sporkOf(height));\n-]',
      'access/blockProofs.test.ts: is taken once all nodes gave none better, with one warning for its spork, until one is proven',
    ],
    'proofs: what cannot be proven in one spork is taken in all of them': [
      '    return [-this.#parts.sporkRoot(height) ??-]{+height < 0 ? height :+} 0;',
      'access/blockProofs.test.ts: says nothing about the blocks of another spork',
    ],
    'proofs: required is taken for auto': [
      "if (this.#parts.mode === 'required'{+ && height < 0+})",
      'access/blockProofs.test.ts: is never taken where a proof is required, else warned of again where the reason is another',
    ],
  },
  'access/transport/rpcClient.ts': {
    'proofs: a forged block is not counted for its node': [
      '[-      if (reason !== undefined) metrics.invalidBlocks.inc({ endpoint: name, reason });\n-]',
      'access/blockProofs.test.ts: a block that a node sends is its lie, and counted, where its id refutes it: %s',
    ],
    'at rest: a call that failed counts as under way': '{+if (signal?.aborted !== true) +}calls -= 1;',
    'a stream that is left is not cancelled': '[-      call?.cancel();\n-]',
  },
  'proof/blocks/BlockProver.ts': {
    'proofs: a block that its id refutes is taken': [
      "    if (typeof payloadForm !== 'string') return [-payloadForm-]{+{ kind: 'unknown_form', block: light }+};",
      'access/blockProofs.test.ts: a block that a node sends is its lie, and counted, where its id refutes it: %s',
    ],
    'proofs: a payload is not held against the hash in its header': [
      "else if (this.#resultsFit(form, block, wanted){+ || wanted !== ''+}) return form;",
      'access/blockProofs.test.ts: a block that a node sends is its lie, and counted, where its id refutes it: %s',
    ],
    'proofs: the copies of what is in the header are not compared with it': [
      "    if (refusal !== undefined{+ && refusal.reason !== 'copy'+}) return refusal;\n    const payloadForm",
      'access/blockProofs.test.ts: a block that a node sends is its lie, and counted, where its id refutes it: %s',
    ],
    'proofs: the two signatures of a guarantee may differ': [
      "[-  if (!isSame) return refused('copy', 'a guarantee has two signatures that differ');\n-]",
      'access/blockProofs.test.ts: a block that a node sends is its lie, and counted, where its id refutes it: %s',
    ],
    'proofs: a header of another network is taken': [
      "[-      return refused('chain', `it is not of the chain ${this.#chainId}`);\n-]",
      'proof/ids.test.ts: is refused %s: %s',
    ],
    'proofs: the Merkle root of the guarantees is not compared with the one that is stored': [
      'this.#root(this.#hasher.guaranteeIds(form, [-block.guarantees-]{+[]+}), 0) &&',
      'proof/ids.test.ts: of a network is proven, and gives the light form that its nodes give',
    ],
  },
  'proof/blocks/storedProof.ts': {
    'proofs: the view of the parent is left out of what is stored': [
      '.number(FIELD.parentView, hasView ? [-header.parentView-]{+0+} : 0)',
      'proof/ids.test.ts: a stored proof gives back every field of the header',
    ],
    'proofs: a stored proof holds for any block': [
      'return hasher.headerId(headerFormOf(stored.form), header) === stored.id ? stored : [-undefined-]{+stored+};',
      'proof/ids.test.ts: a stored proof holds for its block alone',
    ],
  },
  'proof/certificates/verifyCertificate.ts': {
    'finality: the signatures of a certificate are not verified': [
      "  [-if (!bls.verifySignatures(message, expected, signatures, context))\n    return { valid: false, reason: 'the signatures do not hold' }-]{+bls.verifySignatures(message, expected, signatures, context)+};\n",
      'proof/certificates.test.ts: is invalid once a bit of it, or of a signer’s key, is flipped',
    ],
    'finality: a minority of the committee is enough': [
      'if (weight < threshold{+ / 3+})',
      'proof/certificates.test.ts: of a committee whose secrets are known is valid with more than two thirds of the weight only',
    ],
  },
  'finality/proven/finalityProver.ts': {
    'finality: an invalid certificate proves as much as a valid one': [
      "      if (signers === undefined) return { valid: false, reason: 'its epoch is not known' };\n      return [-thread.verify(certificate, signers)-]{+{ valid: true, signers: 1, weight: 1, threshold: 1, ...(await thread.verify(certificate, signers)), ...{ valid: true as const } }+};",
      'finality/finalityProver.test.ts: says which certificate is invalid, warns once, and goes on with the next block',
    ],
    'finality: a block is called sealed by a seal in a block that is not proven':
      'let newest: Identifier | undefined = {+(await blockAt(height + 1))?.id ?? +}id;',
  },
  'proof/certificates/provenFinal.ts': {
    'finality: the view of the child is not compared with that of the block': [
      '[-    if (child.view !== block.view + 1) continue;\n-]',
      'finality/finalityProver.test.ts: follows the newest block, passes over a skipped view, and verifies nothing twice',
    ],
    'finality: a certificate for another view of the parent is taken': [
      'if (grandchild.parentView [-!== child.view-]{+< 0+})',
      'proof/certificates.test.ts: the rule of finality refuses an invalid certificate, one of another view, and blocks that are no chain',
    ],
  },
  'proof/committee/protocolState.ts': {
    'finality: a snapshot is taken that does not hash to the protocol state': [
      "[-  check(sha3Identifier(epochState), hexOf(epochStateId), 'the epoch state');\n-]",
      'proof/committee.test.ts: is refused when anything of it was changed',
    ],
  },
  'finality/proven/finalityAnchor.ts': {
    'finality: who signs next is taken from whoever gives the newest block': [
      '    {+const newest = isLacking && (await blockAt(provenHeight + 10)) && (await headerAt(provenHeight + 10));\n' +
        '    const given = newest && (await stateAt(newest, undefined, signal));\n' +
        '    if (newest && given?.state) return { state: given.state, height: newest.height };\n' +
        '    +}const reason = `who signs after view',
      'finality/finalityProver.test.ts: takes no next committee on the word of nodes that withhold the state at the end of an epoch (%s)',
    ],
  },
  'proof/committee/committee.ts': {
    'finality: a committee signs beyond its epoch': [
      '[- && view <= epoch.finalView-]',
      'proof/committee.test.ts: names who certifies each block around the end of an epoch',
    ],
  },
  'finality/proven/proofBackfill.ts': {
    'proofs: the proof of one height is added at another': [
      "return { kind: 'proven', block{+: { ...block, height: height + 1 }+} };",
      'finality/proofBackfill.test.ts: proves the newest first, few at once, until none is left',
    ],
  },
  'collections/watchForOffChainBlocks.ts': {
    'proofs: a true id is taken for true guarantees where nothing is proven': [
      'held.[-proof === undefined ? `${id} ${collectionIds.join()}`-]{+height < 0 ? collectionIds.join()+} : id;',
      'collections/watchForOffChainBlocks.test.ts: where %s',
    ],
  },
  'collections/executionData/streamEnd.ts': {
    'execution data that does not match the guarantees is held against its node at once': [
      "    return end && { ...end, fault: [-undefined, contradicts-]{+'lied'+} };",
      'collections/ExecutionDataIndexer.test.ts: a lie, %s: refused, counted, held against the node, asked elsewhere',
    ],
  },
  'collections/requester/CollectionRequester.ts': {
    'cancelled request not released': [
      '    {+if (!signal.aborted) +}this.#over(wanted);\n    try {',
      'collections/CollectionRequester.test.ts: are given back whatever happens, in whatever order, and whenever it is stopped',
    ],
    'not given back: the slots of answers that wait at a stop': [
      '    [-for (const { wanted } of this.#answers.splice(0)) this.#over(wanted)-]{+this.#answers.splice(0)+};',
      'collections/CollectionRequester.test.ts: are given back whatever happens, in whatever order, and whenever it is stopped',
    ],
    'not given back: the slot of an answer that comes after the stop': [
      '    {+if (bodies !== undefined) return;\n    +}this.#over(wanted);\n    try {',
      'collections/CollectionRequester.test.ts: are given back by an answer that comes after the stop',
    ],
    'not given back: the turn of a pump that threw': [
      '    }[- finally {\n      this.#pumping = false;\n    }-]',
      'collections/CollectionRequester.test.ts: a bug in choosing reaches the owner, whoever gave the reason to send, and stops nobody from sending later',
    ],
    'a bug in the pump is swallowed': [
      '    } catch [-(error) {\n      this.#dependencies.onFatal(error);\n    }-]{+{\n      // Lost.\n    }+} finally {\n      this.#pumping',
      'collections/CollectionRequester.test.ts: a bug in choosing reaches the owner, whoever gave the reason to send, and stops nobody from sending later',
    ],
    'at rest: a requester that was stopped is still told of free slots': '[-    this.#leaveSlots();\n-]',
  },
  'collections/requester/requestOrder.ts': {
    'a collection is given up after five failures':
      '      {+if (wanted.attempts < 5) +}pause(wanted, pauseMs(wanted, node, failure, isUntried));',
  },
  'collections/executionData/ExecutionDataIndexer.ts': {
    'execution data of another height is taken for the next': [
      '    if (height [-!== this.state.next-]{+< 0+})\n      return givenUp',
      'collections/ExecutionDataIndexer.test.ts: the stream of a peer that gives %s is refused, counted, named, and asked again later',
    ],
    'execution data is read on above the window':
      'if (height > window.upperBound() [-|| window.blockAt(height) === undefined-]{++ 4+}) return false;',
  },
  'access/transport/limits/methodLimiter.ts': {
    'a caller that went away keeps its turn at the limiter': '[-queue.delete(admit);\n          -]if',
    'not given back: the timer of a history caller, when a live one comes': [
      "queue.add(admit);\n        {+if (waitingBefore('history') === 1) +}admitWaiting();",
      'access/limiter.test.ts: calls for history do not make a live call wait that comes while they wait',
    ],
  },
  'finality/head/followHeads.ts': {
    'the head goes down with the node that says so':
      'if (height [-<= (head ?? -1)-]{+=== head+}) return false;',
  },
  'storage/leveldb/LevelIndexStore.ts': {
    'coverage of history is written without the last blocks of its range':
      "return queue.record('range', change, {+isWhole(written) ? [] : +}blocks);",
  },
  'storage/records/BookStore.ts': {
    'what a range of history has above a gap is fetched again':
      'hasHeight: (height) => [-hasHeight(state(), height)-]{+height >= from && height < range.next+},',
  },
  'storage/records/book/changeBook.ts': {
    'a range of history is published before its last height is there': 'return next >{+=+} to;',
    // In the simulation as in the daemon, the line has asked the nodes about its borders before.
    'a border of a range of history is not checked': [
      '[-  if (isCovered(book, to + 1)) checkLink(await headAt(to), await headAt(to + 1), meta);\n-]',
      'storage/levelStore.test.ts: that do not link to the block %s them are refused, and not written',
    ],
  },
  'ranges/local/localWorkSource.ts': {
    'heights of history that are being filled in are handed out again':
      'const taken = [-[...store.coverage(), ...open]-]{+store.coverage()+};',
    'not given back: the pause of a range that failed and was cancelled': [
      '[-    for (const from of notBeforeMs.keys()) if (!firsts.has(from)) notBeforeMs.delete(from);\n-]',
      'ranges/localWorkSource.test.ts: keeps nothing of ranges that failed and were cancelled, nor of those that ended in any other way',
    ],
  },
  'ranges/planner.ts': {
    'a range of history crosses the root of a spork': [
      'spansBetween([-borders-]{+[]+}).flatMap(',
      'ranges/planner.test.ts: takes every missing height once, none twice, none across a border, and none beyond the bound',
    ],
  },
  'app/line/history/rangeLine.ts': {
    'the window of a range of history is twice as wide':
      '{ heights: {+2 * +}config.backfill.window, stopHeight',
    'at rest: a range of history stays subscribed to its pace': '[-    stopPacing();\n-]',
  },
  'api/feed/recentHeights.ts': {
    'a read that a rewind overtakes is cached': [
      '    if (now [-!==-]{+<+} rewinds) {',
      'api/changeFeed.test.ts: lets no read of %s that it overtakes into the cache',
    ],
    'not given back: the oldest heights of a cache': [
      '        if (size [-<= max-]{+>= 0+}) return;',
      'api/changeFeed.test.ts: a follower leaves the newest heights that it read in memory, and no more',
    ],
  },
  'api/feed/changeFeed.ts': {
    'a follower ahead of a rewind is not told': [
      '[-known !== rewinds || -]at.rewind !== undefined',
      'api/changeFeed.test.ts: ends the stream of whoever has a block that is gone, at once, and of nobody else',
    ],
    'a follower gets blocks of two chains in one stream': [
      '[-      await assertContinued(at.last, blocks);\n-]',
      'api/changeFeed.test.ts: is noticed by the next block before anybody tells of it',
    ],
    'not given back: the look whether a follower is late': [
      '[-      timer.cancel();\n-]',
      'api/changeFeed.test.ts: a follower leaves nothing behind, in whichever way it goes',
    ],
  },
  'ranges/rangeRunner.ts': {
    'a range lost at the beginning of its line ends the worker': [
      '      } else if ({+running.size === 0 || +}!(error instanceof RangeLostError)) {',
      'ranges/rangeRunner.test.ts: gives back a range that it has lost %s, and goes on',
    ],
    'a bug is swallowed where a range was lost': [
      '      } else if (!{+job.signal.aborted && !+}(error instanceof RangeLostError)) {',
      'ranges/rangeRunner.test.ts: ends with a bug, also where the range was lost or given back before it shows',
    ],
  },
  'ranges/runningRanges.ts': {
    'not given back: the run of a range that is over': [
      '[-        book.release(store);\n-]',
      'ranges/localWorkSource.test.ts: keeps nothing of ranges that failed and were cancelled, nor of those that ended in any other way',
    ],
  },
  'storage/leveldb/accountIndex.ts': {
    'a step of the account index is written though a rewind has removed its blocks': [
      '[-if (now.accounts !== accounts) return undefined;-]',
      'storage/accounts.test.ts: leaves nothing of a step whose blocks a rewind removes, nor takes them for damage',
    ],
  },
  'app/line/buildLine.ts': {
    'at rest: a line stays subscribed to the watermark, the heads and the nodes':
      '[-    for (const stop of listening) stop();\n-]',
  },
  'runtime/cancellation/abort.ts': {
    'at rest: a wait that is over listens to its signal':
      "      [-signal?.removeEventListener('abort', onAbort);\n      -]wait.leave();",
    'at rest: a scope that has ended listens to its parents':
      "parent.addEventListener('abort', onAbort[-, { signal }-]);",
  },
  'collections/requester/endpointSlots.ts': {
    'at rest: a slot that is released twice is counted twice': '[-        isHeld = false;\n-]',
  },
};

export const plantedBugs = Object.entries(bugs).flatMap(([file, inFile]) =>
  Object.entries(inFile).map(([name, bug]): PlantedBug => {
    if (typeof bug === 'string') return { name, file, change: bug };
    const [change, held] = bug;
    const [holding = '', test = ''] = held.split(/(?<=\.test\.ts): /);
    return { name, file, change, heldBy: { file: `unit/${holding}`, test } };
  }),
);
