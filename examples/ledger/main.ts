/** Run with `node --conditions=onceward-source --import ./scripts/typescript.mjs examples/ledger/main.ts`. */
import { tellStory } from './story.ts';

const { done, rejected, kills, balances, expected, isSound } = await tellStory();
console.log(`${done} payments made, ${rejected} refused for lack of funds, ${kills} kills.`);
console.log(
  `Ann and Bob have ${balances.join(' and ')}; they should have ${expected.join(' and ')}.`,
);
console.log(isSound ? 'The ledger is sound.' : 'The ledger is NOT sound.');
