// `tree`: elements are made one by one, never from a text of markup, so that the page needs no exception from
// require-trusted-types-for.
export default { compilerOptions: { fragments: 'tree', runes: true } };
