// The theme that the user has chosen in the details: light, dark, or that of the system. This script is no module, so that
// it runs before the page is drawn.

{
  const root = document.documentElement;

  const apply = () => {
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    for (const choice of document.getElementsByName("theme")) choice.checked = choice.value === (root.dataset.theme ?? "system");
  };

  apply();
  document.addEventListener("DOMContentLoaded", apply);
  addEventListener("storage", apply);  // it was changed in another tab
  document.addEventListener("change", ({ target }) => {
    if (target.name !== "theme") return;
    localStorage.setItem("theme", target.value);
    apply();
  });
}
