/** One text of one file, and what stands in its place: a bug that somebody might have written. */
export interface PlantedBug {
  readonly name: string;
  /** Below `src/`. */
  readonly file: string;
  /** Stands once in the file. */
  readonly of: string;
  readonly instead: string;
}

/** The source with the bug in it. Throws unless the text that it takes the place of stands there once. */
export function planted(source: string, { file, instead, name, of }: PlantedBug): string {
  const at = source.indexOf(of);
  if (at < 0 || source.includes(of, at + 1))
    throw new Error(`${name}: ${file} does not hold the text once: ${of}`);
  return source.replace(of, () => instead);
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'progress is written before the data, in a batch of its own',
    file: 'storage/leveldb/writing/CommitQueue.ts',
    of: '      putChanges(before, after, batch);',
    instead:
      '      const first = this.database.batch();\n      putChanges(before, after, first);\n      await first.write();',
  },
  {
    name: 'the watermark is told before the batch is durable',
    file: 'storage/leveldb/writing/CommitQueue.ts',
    of: '      await this.write(() => batch.write());',
    instead: '      this.#book = after;\n      await this.write(() => batch.write());',
  },
  {
    name: 'of several changes that share a write only the last one counts',
    file: 'storage/leveldb/writing/ChangeGroup.ts',
    of: 'const changed = await member.change(after, headAt);',
    instead: 'const changed = await member.change(before, headAt);',
  },
  {
    name: 'blocks above the watermark are forgotten by a restart',
    file: 'storage/records/book/bookRecords.ts',
    of: '        above.set(head.height, head);',
    instead: '        if (above.size > MAX_BLOCKS_ABOVE_WATERMARK) above.set(head.height, head);',
  },
  {
    name: 'of several places of a collection only the first in a block is kept',
    file: 'storage/records/blocks/BlockEntryWriter.ts',
    of: '    collection.seal(put);',
    instead: '    if (collectionIndex === 0) collection.seal(put);',
  },
  {
    name: 'what was staged is left out of the batch',
    file: 'storage/leveldb/writing/CommitQueue.ts',
    of: '    const write = staged?.write ?? this.database.batch();',
    instead: '    const write = this.database.batch();',
  },
  {
    name: 'what joined the next batch is left there when no other block follows',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: 'while (this.#waiting.length > 0 || this.#hasNext || this.#mayPass())',
    instead: 'while (this.#waiting.length > 0 || this.#mayPass())',
  },
  {
    name: 'a block that does not fit into the next batch is forgotten',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: '    const joined = this.#waiting.splice(0, count);',
    instead: '    const joined = this.#waiting.splice(0, this.#isFull ? count + 1 : count).slice(0, count);',
  },
  {
    name: 'what an earlier process left above a gap counts before the chain has borne it out',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: '        this.#unconfirmed.add(head.height);\n',
    instead: '',
  },
  {
    name: 'a batch has room for a second spork, whose record is lost',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: '    return this.#next.spork === undefined || this.#newSporkAt(block) === undefined;',
    instead: '    return true;',
  },
  {
    name: 'the root of a spork is written without the record of the spork',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: 'const spork = group.spork ?? this.#lateSporkAt(latestIndexedHeight);',
    instead: 'const spork = this.#lateSporkAt(latestIndexedHeight);',
  },
  {
    name: 'a spork that the table lacks is believed from a single node, whatever the others do',
    file: 'access/pool/sporks/SporkVerifier.ts',
    of: '    const witnesses = this.#witnesses(claim);\n    if',
    instead: '    const witnesses = this.#witnesses(claim).slice(0, 0);\n    if',
  },
  {
    name: 'the nodes of a spork are asked for heights above its end',
    file: 'access/pool/PoolMember.ts',
    of: 'sporkRoots.find((root) => root > anchor);',
    instead: 'sporkRoots.find((root) => root > anchor + 1_000_000);',
  },
  {
    name: 'the parent that the spork table names is not taken',
    file: 'finality/forks/LinkedBlocks.ts',
    of: 'this.#rootParents.get(block.height)\n',
    instead: 'this.#rootParents.get(-1)\n',
  },
  {
    name: 'the last block of a spork is taken from whoever gives one',
    file: 'finality/forks/LinkedBlocks.ts',
    of: '    return confirmed === undefined || confirmed === id;',
    instead: '    return confirmed === undefined || id !== undefined;',
  },
  {
    name: 'one job more than may run at once',
    file: 'jobqueue/consumer/JobWindow.ts',
    of: '      this.#running.size < this.#maxProcessing &&',
    instead: '      this.#running.size <= this.#maxProcessing &&',
  },
  {
    name: 'done before the commit',
    file: 'collections/JobProcessor.ts',
    of: '      const written = await this.#indexer',
    instead: '      queued.done();\n      const written = await this.#indexer',
  },
  {
    name: 'done twice',
    file: 'collections/JobProcessor.ts',
    of: '      queued.done();',
    instead: '      queued.done();\n      queued.done();',
  },
  {
    name: 'a failure of the store is passed over',
    file: 'collections/JobProcessor.ts',
    of: '    this.#failed = true;\n    this.#onFatal(error);\n',
    instead: '    this.#failed = true;\n',
  },
  {
    name: 'the bytes of a durable height are not given back',
    file: 'collections/heights/Window.ts',
    of: '    this.count(record, -record.bytes);\n',
    instead: '',
  },
  {
    name: 'wake-up lost: the consumer is not told of a block',
    file: 'finality/blocks/FinalizedBlocks.ts',
    of: '    this.#resolver.linkedAgain();\n    this.#deps.signal.notify();',
    instead: '    this.#resolver.linkedAgain();',
  },
  {
    name: 'wake-up lost: the reader of blocks is not told of a new head',
    file: 'app/line/runIndexing.ts',
    of: '  listener.onHead(() => window.moved());\n',
    instead: '',
  },
  {
    name: 'wake-up lost: the reader of blocks is not told that the window moved',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: '    this.#window.moved();\n',
    instead: '',
  },
  {
    name: 'reverse index not cleaned: an id that came stays wanted',
    file: 'collections/heights/MissingCollectionQueue.ts',
    of: 'const takers = wanted.heights.splice(0);',
    instead: 'const takers = wanted.heights.slice(0);',
  },
  {
    name: 'an id that two heights want is given to one of them',
    file: 'collections/heights/MissingCollectionQueue.ts',
    of: 'const takers = wanted.heights.splice(0);',
    instead: 'const takers = wanted.heights.splice(0).slice(0, 1);',
  },
  {
    name: 'system chunk kept: it counts as one of the guaranteed',
    file: 'flow/verification/verifyCollections.ts',
    of: 'data.chunks.length === expected.length + 1',
    instead: 'data.chunks.length === expected.length',
  },
  {
    name: 'hash check skipped',
    file: 'flow/verification/verifyCollections.ts',
    of: '      if (received.id === expectedId) return received;',
    instead: '      if (this.lastId !== expectedId || true) return { ...received, id: expectedId };',
  },
  {
    name: 'parent link not checked',
    file: 'finality/forks/LinkedBlocks.ts',
    of: 'tip === undefined || block.parentId === tip.id ||',
    instead: 'tip === undefined || block.parentId !== undefined ||',
  },
  {
    name: 'blocks with status unknown are accepted',
    file: 'finality/blocks/BlockReader.ts',
    of: "        if (status === 'unknown') return { kind: 'orphaned', block };\n",
    instead: '',
  },
  {
    name: 'restart from the watermark + 2',
    file: 'finality/forks/LinkedBlocks.ts',
    of: '    this.#next = this.#base + 1;',
    instead: '    this.#next = this.#base + (this.#watermark.latestBlock() === undefined ? 1 : 2);',
  },
  {
    name: 'one block above the window is asked for',
    file: 'collections/heights/Window.ts',
    of: 'Math.min(this.heights, narrowed), this.headHeight());',
    instead: 'Math.min(this.heights, narrowed) + 1, this.headHeight());',
  },
  {
    name: 'byte budget ignored',
    file: 'collections/heights/Window.ts',
    of: '    if (this.#bytesInHand + bytes <= this.limitBytes) return true;',
    instead: '    if (this.limitBytes > 0) return true;',
  },
  {
    name: 'every height that becomes the lowest missing one is admitted, however slow the disk is',
    file: 'collections/heights/Window.ts',
    of: 'const lowest = this.lowestInHand();',
    instead: 'const lowest = this.lowestCollecting();',
  },
  {
    name: 'proofs: a block that its id refutes is taken',
    file: 'access/node/BlockProofs.ts',
    of: '        throw new ForgedBlockError(proving.reason, `the block does not fit its id: ${proving.detail}`);',
    instead: '        return decodeBlockMessage(message);',
  },
  {
    name: 'proofs: a block is stored without its proof',
    file: 'storage/records/blocks/BlockEntryWriter.ts',
    of: '      proof: block.proof,\n',
    instead: '',
  },
  {
    name: 'lowest missing height not admitted',
    file: 'collections/heights/Window.ts',
    of: "    return lowest?.status === 'collecting' && height <= lowest.height;",
    instead: "    return lowest?.status === 'collecting' && height < lowest.height;",
  },
  {
    name: 'watermark jumps over a gap',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: '    while (this.#isCommitting(height + 1) || this.#isConfirmed(height + 1)) height += 1;',
    instead: '    height = Math.max(height, ...this.#writing.map(({ block }) => block.height));',
  },
  {
    name: 'watermark does not pass over what is durable above a gap',
    file: 'collections/indexer/BlockCollectionIndexer.ts',
    of: 'while (this.#isCommitting(height + 1) || this.#isConfirmed(height + 1)) height += 1;',
    instead: 'while (this.#isCommitting(height + 1)) height += 1;',
  },
  {
    name: 'a collection is given up after five failures',
    file: 'collections/requester/RequestOrder.ts',
    of: '    this.#due.set(wanted, this.#pauseMs(wanted, node, failure, isUntried));',
    instead:
      '    if (wanted.attempts < 5) this.#due.set(wanted, this.#pauseMs(wanted, node, failure, isUntried));',
  },
  {
    name: 'execution data of another height is taken for the next',
    file: 'collections/executionData/ExecutionDataIndexer.ts',
    of: '    if (height !== this.#next) {',
    instead: '    if (height < 0) {',
  },
  {
    name: 'execution data is read on above the window',
    file: 'collections/executionData/ExecutionDataIndexer.ts',
    of: 'if (height > window.upperBound() || window.blockAt(height) === undefined) return false;',
    instead: 'if (height > window.upperBound() + 4) return false;',
  },
  {
    name: 'a stream that is left is not cancelled',
    file: 'access/transport/streams/MessageStream.ts',
    of: '    call?.cancel();\n',
    instead: '',
  },
  {
    name: 'a caller that went away keeps its turn at the limiter',
    file: 'access/transport/limits/MethodLimiter.ts',
    of: '        queue.delete(admit);\n        if',
    instead: '        if',
  },
  {
    name: 'the head goes down with the node that says so',
    file: 'finality/head/FinalizationListener.ts',
    of: 'height <= this.#finalizedHeight) return;',
    instead: 'height === this.#finalizedHeight) return;',
  },
  {
    name: 'a range of history is published before its last height is there',
    file: 'storage/leveldb/ranges/LevelRangeStore.ts',
    of: '        const isWhole = state.latestIndexedHeight === to;',
    instead: '        const isWhole = state.latestIndexedHeight >= to - 1;',
  },
  {
    name: 'coverage of history is written without the last blocks of its range',
    file: 'storage/leveldb/ranges/LevelRangeStore.ts',
    of: "await queue.record('range', change, batch.blocks);",
    instead:
      "await queue.record('range', change, batch.latestIndexedHeight === this.#range.to ? [] : batch.blocks);",
  },
  {
    name: 'what a range of history has above a gap is fetched again',
    file: 'storage/leveldb/ranges/LevelRangeStore.ts',
    of: 'return this.#isPassed(height) || this.#state().above.has(height);',
    instead: 'return this.#isPassed(height);',
  },
  {
    name: 'a restart forgets how far a range of history is',
    file: 'storage/records/book/bookRecords.ts',
    of: 'if (!records.has(record)) put(openKey',
    instead: 'if (!records.has(record) && record.next === record.from) put(openKey',
  },
  {
    name: 'heights of history that are being filled in are handed out again',
    file: 'ranges/local/LocalWorkSource.ts',
    of: 'const there = [...coverage, ...open];',
    instead: 'const there = coverage;',
  },
  {
    name: 'the window of a range of history is twice as wide',
    file: 'app/line/history/rangeLine.ts',
    of: '{ heights: config.backfill.window, stopHeight',
    instead: '{ heights: 2 * config.backfill.window, stopHeight',
  },
  {
    name: 'at rest: a line stays subscribed to the watermark, the heads and the nodes',
    file: 'app/line/buildLine.ts',
    of: '    for (const stop of listening) stop();\n',
    instead: '',
  },
  {
    name: 'at rest: a range of history stays subscribed to its pace',
    file: 'app/line/history/rangeLine.ts',
    of: '    stopPacing();\n',
    instead: '',
  },
  {
    name: 'at rest: a requester that was stopped is still told of free slots',
    file: 'collections/requester/CollectionRequester.ts',
    of: '    this.#leaveSlots();\n',
    instead: '',
  },
  {
    name: 'at rest: a wait that is over listens to its signal',
    file: 'runtime/cancellation/abort.ts',
    of: "      signal?.removeEventListener('abort', onAbort);\n      wait.leave();",
    instead: '      wait.leave();',
  },
  {
    name: 'at rest: a scope that has ended listens to its parents',
    file: 'runtime/cancellation/abort.ts',
    of: "    for (const parent of parents) parent.removeEventListener('abort', onAbort);\n",
    instead: '',
  },
  {
    name: 'at rest: a slot that is released twice is counted twice',
    file: 'collections/requester/EndpointSlots.ts',
    of: '      isHeld = false;\n',
    instead: '',
  },
  {
    name: 'at rest: a call that failed counts as under way',
    file: 'access/transport/RpcClient.ts',
    of: '      this.#calls -= 1;',
    instead: '      if (signal?.aborted !== true) this.#calls -= 1;',
  },
  {
    name: 'finality: the signatures of a certificate are not verified',
    file: 'proof/certificates/verifyCertificate.ts',
    of: "  if (!bls.verifySignatures(message, expected, signatures, context))\n    return invalid('the signatures do not hold');\n",
    instead: '  bls.verifySignatures(message, expected, signatures, context);\n',
  },
  {
    name: 'finality: an invalid certificate proves as much as a valid one',
    file: 'finality/proven/FinalityProver.ts',
    of: "      if (signers === undefined) return { valid: false, reason: 'its epoch is not known' };\n      return thread.verify(certificate, signers, CURRENT_RULES);",
    instead:
      "      if (signers === undefined) return { valid: false, reason: 'its epoch is not known' };\n      return { valid: true, signers: 1, weight: 1, threshold: 1, ...(await thread.verify(certificate, signers, CURRENT_RULES)), ...{ valid: true as const } };",
  },
  {
    name: 'finality: a block is called sealed by a seal in a block that is not proven',
    file: 'finality/proven/FinalityProver.ts',
    of: 'let newest: Identifier | undefined = id;',
    instead: 'let newest: Identifier | undefined = (await this.#deps.blockAt(height + 1))?.id ?? id;',
  },
  {
    name: 'finality: a minority of the committee is enough',
    file: 'proof/certificates/verifyCertificate.ts',
    of: 'if (weight < threshold)',
    instead: 'if (weight < threshold / 3)',
  },
  {
    name: 'finality: the view of the child is not compared with that of the block',
    file: 'proof/certificates/provenFinal.ts',
    of: '    if (child.view !== block.view + 1) continue;\n',
    instead: '',
  },
  {
    name: 'finality: a certificate for another view of the parent is taken',
    file: 'proof/certificates/provenFinal.ts',
    of: 'if (grandchild.parentView !== child.view) {',
    instead: 'if (grandchild.parentView < 0) {',
  },
  {
    name: 'finality: a snapshot is taken that does not hash to the protocol state',
    file: 'proof/committee/protocolState.ts',
    of: "  check(sha3Identifier(epochState), string(epochStateId).toString('hex'), 'the epoch state');\n",
    instead: '',
  },
  {
    name: 'finality: who signs next is taken from whoever gives the newest block',
    file: 'finality/proven/FinalityAnchor.ts',
    of: '    throw new NotProvenError(\n      `who signs after view',
    instead:
      '    if (isLacking && (await this.#deps.idAt(provenHeight + 10)) !== undefined) return this.#believe(provenHeight + 10, signal);\n    throw new NotProvenError(\n      `who signs after view',
  },
  {
    name: 'finality: a committee signs beyond its epoch',
    file: 'proof/committee/committee.ts',
    of: ' && view <= epoch.finalView',
    instead: '',
  },
];
