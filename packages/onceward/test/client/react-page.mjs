import { createElement, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { indexedDbStorage, Outbox } from '../../src/client/index.ts';
import { useOperation, useOutbox } from '../../src/client/react.ts';

const outbox = new Outbox({ storage: indexedDbStorage() });

function Shown({ id }) {
  const { waiting, paused } = useOutbox(outbox);
  const operation = useOperation(outbox, id);
  const state = operation === undefined ? 'loading' : (operation?.state ?? 'none');
  return createElement('p', null, `${waiting} ${paused ?? 'going'} ${state}`);
}

const root = document.createElement('div');
document.body.append(root);
const page = createRoot(root);

Object.assign(globalThis, {
  outbox,
  show: (id) => page.render(createElement(StrictMode, null, createElement(Shown, { id }))),
  leave: () => page.unmount(),
});
