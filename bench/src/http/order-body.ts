/** What every load sends, by default. */
export const BODY = '{"item":"widget","amount":4098,"note":"one of many"}';
