// The files with the runs' answers, and the texts that a search covers.

const FILES_AT_ONCE = 4;

// Read the files in the folder "gallery", each with `size` questions. A page from disk cannot fetch files, but can run scripts.
function answerFiles(items, size) {
  const reading = new Map();
  const arrived = new Map();
  const numberOf = (item) => Math.floor(item.position / size);
  const itemsOf = (number) => items.slice(number * size, (number + 1) * size);
  window.reportChunk = (number, details) => arrived.set(number, details);

  // Fail with the file's name if it is missing or damaged.
  function read(number) {
    if (!reading.has(number)) {
      reading.set(number, new Promise((done, failed) => {
        const script = make("script", { src: `gallery/${number}.js` });
        script.onload = script.onerror = () => {
          script.remove();
          if (arrived.get(number)?.length === itemsOf(number).length) return done(arrived.get(number));
          arrived.delete(number);
          reading.delete(number);
          return failed(`gallery/${number}.js`);
        };
        document.head.append(script);
      }));
    }
    return reading.get(number);
  }

  const detailsOf = (item) => read(numberOf(item)).then((details) => details[item.position % size]);

  // Return the text to search. It is complete if the question's file has been read.
  function textOf(item) {
    const details = arrived.get(numberOf(item))?.[item.position % size];
    if (details ? !item.isComplete : item.text === undefined) {
      const parts = [item.key, item.question, ...item.facts.values()];
      if (details) {
        parts.push(details.question, details.video, ...details.choices, ...details.references.map(([, text]) => text));
        for (const [, answer] of details.answers) parts.push(answer.text, answer.reply, answer.judgement);
        item.isComplete = true;
      }
      item.text = parts.filter((part) => part !== null && part !== undefined).join("\n").toLowerCase();
    }
    return item.text;
  }

  // Read the files of some questions, and return the names of missing files.
  async function readAll(wanted, isStale, progress) {
    const numbers = [...new Set(wanted.map(numberOf))];
    const waiting = [...numbers];
    const missing = [];
    const reader = async () => {
      while (waiting.length && !isStale()) {
        const number = waiting.shift();
        await read(number).then(() => itemsOf(number).forEach(textOf), (file) => missing.push(file));
        progress((numbers.length - waiting.length) / numbers.length);
      }
    };
    await Promise.all(Array.from({ length: FILES_AT_ONCE }, reader));
    return missing.sort(collator.compare);
  }

  return { detailsOf, textOf, readAll };
}
