import globals from "globals";

const DANGEROUS = ["innerHTML", "outerHTML", "insertAdjacentHTML"];

export default [
  { ignores: ["**/vendor/**"] },
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-undef": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-var": "error",
      "prefer-const": "error",
      "no-console": "error",
      "no-restricted-properties": ["error", ...DANGEROUS.map((property) => ({ property })), { object: "document", property: "write" }],
      "no-shadow": "error",
      "default-case-last": "error",
    },
  },
];
