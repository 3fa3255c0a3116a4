// Swagger UI on the page of the HTTP API. Calls go to this server with the session of who is signed in.

const place = document.getElementById("api");
const csrf = document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";

if (place) {
  const bundle = /** @type {any} */ (globalThis)["SwaggerUIBundle"];
  bundle({
    domNode: place,
    url: place.dataset["openapi"],
    deepLinking: true,
    docExpansion: "none",
    filter: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    presets: [bundle.presets.apis],
    requestInterceptor: (/** @type {{headers: Record<string, string>, method?: string}} */ request) => {
      if (request.method && request.method !== "GET") request.headers["X-CSRFToken"] = csrf;
      return request;
    },
  });
}

/** Swagger UI's own dark colours go by a class. */
function followTheme() {
  document.documentElement.classList.toggle("dark-mode", getComputedStyle(document.documentElement).colorScheme === "dark");
}

followTheme();
document.addEventListener("weei:theme", followTheme);
document.getElementById("dark")?.addEventListener("load", followTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", followTheme);
