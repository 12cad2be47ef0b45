// Types of the modules that the page imports from /vendor/@xterm/, see "paths" in tsconfig.json.
export * from "@xterm/xterm";
export * from "@xterm/addon-fit";
export * from "@xterm/addon-search";
export * from "@xterm/addon-unicode-graphemes";
export * from "@xterm/addon-web-links";
export * from "@xterm/addon-webgl";
