import { expect, it } from 'vitest';
import { type FaultRule, parseFaults } from '../../../src/devnet/index.js';
import { refusal } from '../../support/refusal.js';

it('are taken when they are right', () => {
  const rules: FaultRule[] = [
    { method: '*', fault: 'latency', delayMs: 20, probability: 0.5 },
    { method: 'GetFullCollectionByID', fault: 'error', code: 'INTERNAL', message: 'no', times: 3, skip: 1 },
    { method: 'Subscribe*', fault: 'cut', how: 'reset', every: 100, fromHeight: 5, toHeight: 900 },
    { method: 'SubscribeExecutionData*', fault: 'stall', on: 'open', afterMs: 10, untilMs: 20 },
    { method: 'SubscribeExecutionDataFromLatest', fault: 'execution_data_lag', blocks: -4 },
    { method: 'GetLatestBlockHeader', fault: 'head_backwards', blocks: 7 },
    { method: 'GetNetworkParameters', fault: 'other_chain', chainId: 'flow-mainnet' },
  ];
  expect([parseFaults(JSON.stringify(rules)), parseFaults('[]')]).toEqual([rules, []]);
});

it.each([
  [{}, /faults\.json must hold an array of rules/],
  [[7], /rule 1: it must be an object/],
  [[{ fault: 'stall' }], /rule 1: "method" is missing/],
  [[{ method: 'Ping' }], /"fault" is missing: it must be one of latency, error/],
  [[{ method: 'Ping', fault: 'sulk' }], /"fault" must be one of latency/],
  [
    ['Ping', 'Pong'].map((method) => ({ method, fault: 'stall' })),
    /rule 2: no method is called "Pong"; the methods are Ping/,
  ],
  [[{ method: 'Ping', fault: 'latency' }], /"delayMs" is missing: it must be a whole number between 0 and/],
  [[{ method: 'Ping', fault: 'stall', delayMs: 5 }], /"delayMs" is not a field of a .* fault "stall"/],
  [[{ method: 'Ping', fault: 'stall', toString: 5 }], /"toString" is not a field of a rule/],
  [[{ method: 'Ping', fault: 'error', code: 'OOPS' }], /"code" must be one of CANCELLED/],
  [[{ method: 'Ping', fault: 'error', code: 'INTERNAL', message: 5 }], /"message" must be a text/],
  [[{ method: 'Ping', fault: 'stall', probability: 2 }], /"probability" must be a number between 0 and 1/],
  [[{ method: 'Ping', fault: 'stall', fromHeight: 5, toHeight: 4 }], /"fromHeight" is above "toHeight"/],
  [[{ method: 'Ping', fault: 'stall', afterMs: 5, untilMs: 4 }], /"afterMs" is after "untilMs"/],
  [[{ method: 'GetBlock*', fault: 'changed_copy', field: 'view' }], /"field" must be one of time, height/],
  [[{ method: 'GetBlock*', fault: 'hidden_header', invents: false }], /"invents" must be true/],
  [[{ method: 'Ping', fault: 'swapped_chunks' }], /"swapped_chunks" makes no sense for Ping/],
  [[{ method: 'GetBlock*', fault: 'gap' }], /"gap" makes no sense for GetBlock\*/],
  [[{ method: 'Ping', fault: 'stall', on: 'open' }], /makes no sense for Ping/],
  [[{ method: '*', fault: 'execution_data_lag', blocks: 1, times: 2 }], /"times" makes no sense for a lag/],
])('%j is refused', (value, message) => {
  const parse = () => parseFaults(JSON.stringify(value), 'faults.json');
  expect(parse).toThrow(expect.objectContaining(refusal('configuration', message)));
});

it('are refused when they are not JSON', () => {
  expect(() => parseFaults('[{', 'faults.json')).toThrow(/faults\.json is not JSON/);
});
