import { endToEnd, inLibrary, type Mutant } from './mutant.ts';

const inClient = (file: string, find: string, replace: string) =>
  inLibrary(`client/${file}`, find, replace);

const inRefusals = (find: string, replace: string) =>
  inLibrary('refusals/refusals.ts', find, replace);

/** What goes wrong between parts that are each right alone. */
export const END_TO_END: readonly Mutant[] = [
  endToEnd(
    'an upstream that fell silent is taken not to have acted',
    'E16',
    inRefusals("'UPSTREAM_TIMEOUT', 'same_key', 'unknown'", "'UPSTREAM_TIMEOUT', 'new_key', 'no'"),
  ),
  endToEnd(
    'an upstream that broke off is taken not to have acted',
    'E16',
    inRefusals("'UPSTREAM_RESET', 'same_key', 'unknown'", "'UPSTREAM_RESET', 'new_key', 'no'"),
  ),
  endToEnd('the gateway frees the key of a request that got no answer', 'H15', {
    file: 'packages/server/src/gateway/gateway-exchange.ts',
    find: "fault !== 'refused' && this",
    replace: "fault === 'refused' && this",
  }),
  endToEnd(
    'a group turns back from a step in doubt',
    'C15',
    inClient(
      'outbox/transition.ts',
      "return fail(operation, 'unknown', { code: 'IN_DOUBT', reason: verdict.reason, answer }, now);",
      "return refused({ ...operation, unsettledSince: null }, { code: 'REFUSED', reason: verdict.reason, answer }, ways);",
    ),
  ),
  endToEnd(
    'the client does not read what the sync envelope says',
    'C14',
    inClient('verdict.ts', '{ ...said, ...saidInside } as', '{ ...said } as'),
    inClient('verdict.ts', 'asText(code).toLowerCase()', "''"),
  ),
  endToEnd(
    'an answer that was not kept is taken for a refusal',
    'C14',
    inClient('verdict.ts', "if (happened === 'yes') return { kind: 'done' };", ''),
    inClient('verdict.ts', "case 'response-not-retained':\n      return { kind: 'done' };", ''),
  ),
  endToEnd(
    'a submission that nobody answered counts as not taken in',
    'E16',
    inRefusals(
      "'MANAGER_UNAVAILABLE', 'same_key', 'unknown'",
      "'MANAGER_UNAVAILABLE', 'same_key', 'no'",
    ),
  ),
  endToEnd(
    'what was sent longer ago than the server remembers is sent as if it were new',
    'H20',
    inClient(
      'outbox/runner.ts',
      'if (isPastWindow(operation, now, replayWindowMs)) {',
      'if (operation.attempts < 0) {',
    ),
    inClient('outbox/sender.ts', 'if (firstSent !== null && this', 'if (firstSent === 0 && this'),
  ),
  endToEnd(
    'a server runs what may be older than it remembers',
    'H20',
    inClient(
      'outbox/runner.ts',
      'if (isPastWindow(operation, now, replayWindowMs)) {',
      'if (operation.attempts < 0) {',
    ),
    inLibrary(
      'engine/record/first-sent.ts',
      'if (firstSentAt === undefined) return false;',
      'if (firstSentAt === undefined || firstSentAt > 0) return false;',
    ),
  ),
  endToEnd(
    "the user who is signed in sends everybody's operations",
    'C17',
    inClient(
      'outbox/runner.ts',
      'if (operation === null || ownerOf(operation) !== owner()) return false;',
      'if (operation === null || owner === null) return false;',
    ),
    inClient(
      'outbox/sender.ts',
      "if (owner() !== ownerOf(operation)) return said({ kind: 'not_sent' });",
      '',
    ),
  ),
  endToEnd(
    'an operation goes out with the credentials of someone who has signed in meanwhile',
    'C17',
    inClient(
      'outbox/sender.ts',
      "if (owner() !== ownerOf(operation)) return said({ kind: 'not_sent' });",
      '',
    ),
  ),
  endToEnd(
    'an edit is made while another tab has the original on its way',
    'C7',
    inClient(
      'outbox/runner.ts',
      '{ ...sent, verdict, onlyAttempt }',
      '{ ...sent, verdict, onlyAttempt: wasFirst }',
    ),
  ),
  endToEnd(
    'a refusal at the door is believed while another tab has the same on its way',
    'C14',
    inClient(
      'outbox/runner.ts',
      'const verdict = onlyAttempt ? sent',
      'const verdict = wasFirst ? sent',
    ),
  ),
  endToEnd(
    'a busy server uses up attempts',
    'C18',
    inClient('outbox/transition.ts', '(verdict.isBusy ? 0 : 1)', '1'),
  ),
  endToEnd(
    'the page at the end of a redirect counts as done',
    'C18',
    inClient(
      'outbox/sender.ts',
      'if (redirected && isDone?.({ ...answer, url }) !== true)',
      'if (redirected && isDone?.({ ...answer, url }) === false)',
    ),
  ),
  endToEnd(
    'an edit is made while the outcome is unknown',
    'C7',
    inClient(
      'outbox/transition.ts',
      'if (wish === null || operation.unsettledSince !== null) return null;',
      'if (wish === null) return null;',
    ),
  ),
  endToEnd(
    'what may have happened is edited as soon as it is tried again',
    'C14',
    inClient(
      'outbox/transition.ts',
      'const unsettledSince = operation.unsettledSince ?? operation.failedAt;',
      'const unsettledSince = null;',
    ),
  ),
  endToEnd(
    'a refusal at the door settles what was sent before',
    'C14',
    inClient(
      'verdict.ts',
      "return verdict.kind === 'refused' && verdict.atTheDoor\n",
      "return verdict.kind === 'refused' && verdict.reason === ''\n",
    ),
  ),
  endToEnd(
    'the answer to an old key settles the new one',
    'C7',
    inClient(
      'outbox/runner.ts',
      'while (current !== null && currentRequest(current).key === key && !this',
      'while (current !== null && key !== null && !this',
    ),
  ),
  endToEnd(
    'each attempt at a submission makes a job of its own',
    'J6',
    inLibrary(
      'jobs/managers/manager.ts',
      'const jobId = await attempt.step<string>(ID_STEP, noId);',
      'const jobId = randomUUID();',
    ),
  ),
  endToEnd(
    'a write that may be committed is given up as refused',
    'S4',
    inClient(
      'ledger/ledger-verdict.ts',
      "const happened = isInDoubt ? 'unknown' : first;",
      "const happened = isInDoubt ? 'no' : first;",
    ),
  ),
  endToEnd(
    'a write is sent again after the ledger has forgotten its key',
    'S5',
    inClient(
      'ledger/ledger-doubt.ts',
      'return now - (write.sent_at ?? 0) >= known;',
      'return known < 0;',
    ),
  ),
  endToEnd(
    'an address to which nothing can be sent is queued',
    'C18',
    inClient('outbox/request-intake.ts', '  checkSendable(request, core);\n', ''),
  ),
  endToEnd(
    'what cannot be sent waits as if the network were down',
    'C18',
    inClient(
      'outbox/sender.ts',
      "return said({ kind: 'refused', reason, code: 'UNSENDABLE', atTheDoor: true });",
      "return said({ kind: 'unreachable', reason, ran: 'unknown' });",
    ),
  ),
  endToEnd(
    'a stored pause is not heeded',
    'C17',
    inClient(
      'outbox/outbox.ts',
      'this.#pause = paused ?? this.#ownPause;',
      'this.#pause = this.#ownPause;',
    ),
  ),
  endToEnd(
    'everyone who got a 401 asks for new credentials',
    'C18',
    inClient(
      'outbox/sender.ts',
      'this.#refreshing ??= withDeadline',
      'this.#refreshing = withDeadline',
    ),
  ),
  endToEnd(
    'credentials that never come hold what waits for them',
    'C18',
    inClient(
      'outbox/sender.ts',
      'await withDeadline(world, AUTH_LIMIT, signal, async () =>\n        auth?.headers(),\n      );',
      'await auth?.headers();',
    ),
  ),
  endToEnd('the ledger runs a write again under the key of the first', 'S4', {
    file: 'packages/ledger/src/pipeline/apply/apply-write.ts',
    find: 'const receipt = findReceipt(machine, name, request.key);',
    replace: "const receipt = request.key === '' ? findReceipt(machine, name, '') : undefined;",
  }),
];
