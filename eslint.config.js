import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["static/vendor/**", ".venv/**", "var/**"] },
  js.configs.recommended,
  {
    files: ["static/weei/**/*.js", "static/pages/**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: { ...globals.browser, ...globals.worker } },
  },
  {
    files: ["static/weei/host/node*.js", "tests/js/**/*.js", "tests/pages/**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: { ...globals.node } },
  },
  {
    rules: {
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
    },
  },
];
