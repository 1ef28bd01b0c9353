import { expect, it } from 'vitest';
import { tallyReport } from '../../scripts/tally.mjs';

const passing = {
  numPassedTests: 3,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [{ name: 'a.test.ts', status: 'passed', assertionResults: [{ status: 'passed' }] }],
};

it('says that all is well when every test passed', () => {
  const tally = tallyReport({ report: passing, runnerExit: 0, failedChecks: [] });
  expect(tally).toEqual({ line: '3 passed, 0 failed', notes: [], exitCode: 0 });
});

it('names the skipped tests only when there are any', () => {
  const report = { ...passing, numPendingTests: 1, numTodoTests: 1 };
  const tally = tallyReport({ report, runnerExit: 0, failedChecks: [] });
  expect(tally.line).toBe('3 passed, 0 failed, 2 skipped');
  expect(tally.exitCode).toBe(0);
});

it('fails when a test fails', () => {
  const report = {
    ...passing,
    numFailedTests: 1,
    testResults: [{ name: 'a', status: 'failed', assertionResults: [{ status: 'failed' }] }],
  };
  const tally = tallyReport({ report, runnerExit: 1, failedChecks: [] });
  expect(tally).toEqual({ line: '3 passed, 1 failed', notes: [], exitCode: 1 });
});

it('counts a file that could not be loaded as a failure', () => {
  const report = {
    ...passing,
    testResults: [{ name: 'broken.test.ts', status: 'failed', assertionResults: [] }],
  };
  const tally = tallyReport({ report, runnerExit: 1, failedChecks: [] });
  expect(tally.line).toBe('3 passed, 1 failed');
  expect(tally.notes).toEqual([expect.stringContaining('broken.test.ts')]);
});

it('counts a failed check as a failure and names it', () => {
  const tally = tallyReport({ report: passing, runnerExit: 0, failedChecks: ['types'] });
  expect(tally).toEqual({
    line: '3 passed, 1 failed',
    notes: ['check failed: types'],
    exitCode: 1,
  });
});

it('fails when the runner fails though no test did', () => {
  const tally = tallyReport({ report: passing, runnerExit: 1, failedChecks: ['types'] });
  expect(tally.line).toBe('3 passed, 2 failed');
  expect(tally.exitCode).toBe(1);
});

it('fails when the runner leaves no report', () => {
  const tally = tallyReport({ report: null, runnerExit: 134, failedChecks: [] });
  expect(tally.line).toBe('0 passed, 1 failed');
  expect(tally.notes).toEqual([expect.stringContaining('134')]);
  expect(tally.exitCode).toBe(1);
});

it('fails when nothing ran', () => {
  const report = { ...passing, numPassedTests: 0, testResults: [] };
  const tally = tallyReport({ report, runnerExit: 0, failedChecks: [] });
  expect(tally).toEqual({ line: '0 passed, 0 failed', notes: ['No test ran.'], exitCode: 1 });
});
