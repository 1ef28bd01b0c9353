/** Whatever the test has put behind the door: Next.js is what lies between it and the socket. */
const answer = (request, context) => globalThis[Symbol.for('onceward.next-test')](request, context);

export { answer as GET, answer as PATCH, answer as POST, answer as PUT };
