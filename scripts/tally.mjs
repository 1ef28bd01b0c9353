/**
 * Turns the runner's report into the last line of a test run. Whatever went wrong outside a test (a check, a file that
 * could not be loaded, an error nobody caught, a runner without a report) counts as one failure each, so that the line
 * never says that all is well when it is not.
 */
export function tallyReport({ report, runnerExit, failedChecks }) {
  const notes = failedChecks.map((name) => `check failed: ${name}`);
  const passed = report?.numPassedTests ?? 0;
  const skipped = (report?.numPendingTests ?? 0) + (report?.numTodoTests ?? 0);
  let failed = failedChecks.length + (report?.numFailedTests ?? 0);

  for (const file of report?.testResults ?? []) {
    const blamed = file.assertionResults.some((test) => test.status === 'failed');
    if (file.status !== 'failed' || blamed) continue;
    failed += 1;
    notes.push(`file failed outside its tests: ${file.name}`);
  }
  if (report === null) {
    failed += 1;
    notes.push(`The test runner ended with exit code ${runnerExit} and left no report.`);
  } else if (runnerExit !== 0 && failed === failedChecks.length) {
    failed += 1;
    notes.push(
      `The test runner ended with exit code ${runnerExit} though no test failed; see above.`,
    );
  }
  if (report !== null && passed + failed === 0) notes.push('No test ran.');

  const line = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  return { line, notes, exitCode: failed === 0 && passed > 0 ? 0 : 1 };
}
