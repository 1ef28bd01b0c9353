/** What every load sends, unless it is told otherwise. */
export const BODY = '{"item":"widget","amount":4098,"note":"one of many"}';
