// Images, recordings and files of messages. Nothing is loaded from elsewhere: a URL of another host is shown as a link.

import { element, escapeInvisible, fileSize } from "./dom.js";
import { webAddress } from "./markdown.js";

const NAMES = { image: "image", audio: "recording", video: "video", document: "document", file: "file" };
const SHOWN = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// Return the node of a part. `fileUrl(id)` is the address of a file at the server.
export function media(part, fileUrl) {
  const label = escapeInvisible(part.name || NAMES[part.type] || part.type);
  if (part.type === "image" && part.file) return picture(label, element("img", { src: fileUrl(part.file), alt: label, loading: "lazy" }), fileUrl(part.file));
  if (part.type === "image" && part.data && SHOWN.includes(part.media_type)) return picture(label, canvas(bytes(part), label), null);
  if (part.type === "audio" && (part.file || part.data)) return recording(part, label, fileUrl);
  const address = part.file ? fileUrl(part.file) : webAddress(part.url);
  const link = address ? { href: address, target: "_blank", rel: "noopener noreferrer", referrerpolicy: "no-referrer", title: part.file ? null : address } : null;
  const type = part.media_type === "text/plain" ? "" : part.media_type;  // the name tells more
  const words = [label, type && escapeInvisible(type), sizeOf(part)].filter(Boolean).join(" · ");
  return element(link ? "a" : "p", { class: "file-part", ...link }, words);
}

function sizeOf(part) {
  const size = part.size ?? (part.data ? Math.floor((part.data.length * 3) / 4) : null);
  if (size === null) return "";
  return fileSize(size);
}

// The bytes of a part are base64 in the alphabet of URLs.
function bytes({ data, media_type }) {
  return new Blob([Uint8Array.from(atob(data.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0))], { type: media_type ?? "" });
}

function picture(label, node, href) {
  return element("figure", { class: "picture" }, href ? element("a", { href, target: "_blank", rel: "noopener", "aria-label": `Open ${label}` }, node) : node);
}

// The policy of the page allows no data in the addresses of images.
function canvas(blob, label) {
  const node = element("canvas", { role: "img", "aria-label": label, width: 0, height: 0 });
  createImageBitmap(blob).then(
    (image) => {
      node.width = image.width;
      node.height = image.height;
      node.getContext("2d").drawImage(image, 0, 0);
    },
    () => node.replaceWith(element("p", { class: "file-part" }, `${label} · cannot be shown`)),
  );
  return node;
}

function recording(part, label, fileUrl) {
  let source = null;
  const button = element("button", { type: "button", class: "play" }, "▶ Play");
  const stop = () => {
    source?.stop();
    source = null;
    button.textContent = "▶ Play";
  };
  button.addEventListener("click", async () => {
    if (source !== null) return stop();
    try {
      const data = part.file ? await (await fetch(fileUrl(part.file))).arrayBuffer() : await bytes(part).arrayBuffer();
      const audio = new AudioContext();
      source = audio.createBufferSource();
      source.buffer = await audio.decodeAudioData(data);
      source.connect(audio.destination);
      source.addEventListener("ended", stop);
      source.start();
      button.textContent = "■ Stop";
    } catch {
      source = null;
      button.textContent = "cannot be played";
      button.disabled = true;
    }
  });
  const transcript = part.transcript ? element("p", { class: "plain-text", dir: "auto" }, escapeInvisible(part.transcript)) : "";
  return element("figure", { class: "recording", role: "group", "aria-label": label }, button, element("span", {}, [label, sizeOf(part)].filter(Boolean).join(" · ")), transcript);
}
