// What the server wants with each request: its token, and for whom the page was drawn, for it takes nothing for somebody else. Signing in
// makes a new token, so a page that was open meanwhile has to ask for it.

const named = (page) => page.querySelector('meta[name="rw-csrf"]');

export class Session {
  #asking = null;

  // `account`: the address of a page that everybody has.
  constructor(account) {
    this.account = account;
  }

  headers() {
    const token = document.querySelector('[name="csrfmiddlewaretoken"]')?.value ?? named(document).content;
    return { Accept: "application/json", "X-CSRFToken": token, "X-Person": named(document).dataset.person };
  }

  // After a refusal: take over the new token if this person has signed in again in another tab; whether that was so. Nothing is sent for
  // somebody else who signs in there: their page names another person.
  renew() {
    this.#asking ??= this.#ask().finally(() => (this.#asking = null));
    return this.#asking;
  }

  async #ask() {
    const response = await fetch(this.account, { redirect: "manual", signal: AbortSignal.timeout(10000) }).catch(() => null);
    if (!response?.ok) return false;
    const other = named(new DOMParser().parseFromString(await response.text(), "text/html"));
    if (other?.dataset.person !== named(document).dataset.person) return false;
    named(document).content = other.content;
    for (const field of document.querySelectorAll('[name="csrfmiddlewaretoken"]')) field.value = other.content;
    return true;
  }
}
