/** The part of streaming-markdown that the page uses. */
export interface Renderer<T> {
  data: T;
  add_token: (data: T, type: number) => void;
  end_token: (data: T) => void;
  add_text: (data: T, text: string) => void;
  set_attr: (data: T, type: number, value: string) => void;
}
export interface Parser { readonly renderer: unknown }
export function parser<T>(renderer: Renderer<T>): Parser;
export function parser_write(parser: Parser, chunk: string): void;
export function parser_end(parser: Parser): void;
