/* The TeX commands of math.js that stand for a character or a name. */

/* "name char name char ..." to a Map. */
function symbolTable(text) {
  const words = text.trim().split(/\s+/), table = new Map();
  for (let i = 0; i + 1 < words.length; i += 2) table.set(words[i], words[i + 1]);
  return table;
}

/* Identifiers: <mi>. */
const TEX_LETTERS = symbolTable(`
  alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι
  kappa κ varkappa ϰ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ
  varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω
  Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
  ell ℓ hbar ℏ hslash ℏ imath ı jmath ȷ wp ℘ Re ℜ Im ℑ aleph ℵ beth ℶ gimel ℷ infty ∞ emptyset ∅
  varnothing ∅ partial ∂ nabla ∇ angle ∠ measuredangle ∡ triangle △ square □ blacksquare ■ Box □
  qed ∎ Diamond ◇ top ⊤ bot ⊥ degree ° prime ′ S § P ¶ copyright © pounds £ euro € yen ¥
  heartsuit ♡ diamondsuit ♢ clubsuit ♣ spadesuit ♠ sharp ♯ flat ♭ natural ♮ checkmark ✓
  bigstar ★ complement ∁ eth ð AA Å aa å ss ß O Ø o ø dagger † ddagger ‡ lozenge ◊
  # # $ $ % % & & _ _`);

/* Operators, relations and arrows: <mo>. */
const TEX_OPERATORS = symbolTable(`
  pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘
  odot ⊙ cap ∩ cup ∪ uplus ⊎ sqcap ⊓ sqcup ⊔ vee ∨ lor ∨ wedge ∧ land ∧ setminus ∖ smallsetminus ∖
  wr ≀ amalg ⨿ ltimes ⋉ rtimes ⋊ bowtie ⋈ Join ⋈ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄
  le ≤ leq ≤ leqslant ⩽ ge ≥ geq ≥ geqslant ⩾ ne ≠ neq ≠ ll ≪ gg ≫ lt < gt > lll ⋘ ggg ⋙
  equiv ≡ sim ∼ simeq ≃ approx ≈ approxeq ≊ cong ≅ propto ∝ asymp ≍ doteq ≐ triangleq ≜
  coloneqq ≔ eqqcolon ≕ lesssim ≲ gtrsim ≳ lessgtr ≶ prec ≺ succ ≻ preceq ⪯ succeq ⪰ in ∈ notin ∉
  ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ nsubseteq ⊈ sqsubseteq ⊑
  sqsupseteq ⊒ mid ∣ nmid ∤ parallel ∥ nparallel ∦ perp ⊥ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ Vdash ⊩
  therefore ∴ because ∵ triangleleft ◁ triangleright ▷ unlhd ⊴ unrhd ⊵ lhd ⊲ rhd ⊳ frown ⌢ smile ⌣
  to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔
  iff ⟺ implies ⟹ impliedby ⟸ longrightarrow ⟶ longleftarrow ⟵ longleftrightarrow ⟷
  Longrightarrow ⟹ Longleftarrow ⟸ Longleftrightarrow ⟺ mapsto ↦ longmapsto ⟼ hookrightarrow ↪
  hookleftarrow ↩ rightharpoonup ⇀ rightharpoondown ⇁ leftharpoonup ↼ leftharpoondown ↽
  rightleftharpoons ⇌ leftrightharpoons ⇋ rightsquigarrow ⇝ leadsto ⇝ twoheadrightarrow ↠
  rightrightarrows ⇉ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓ Updownarrow ⇕
  nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ nrightarrow ↛ nleftarrow ↚ nRightarrow ⇏ circlearrowleft ↺
  circlearrowright ↻ ldots … dots … dotsc … dotso … cdots ⋯ dotsb ⋯ dotsm ⋯ dotsi ⋯ vdots ⋮ ddots ⋱
  colon : backslash ∖ vert | Vert ‖ | ‖ lvert | rvert | lVert ‖ rVert ‖ langle ⟨ rangle ⟩ lfloor ⌊
  rfloor ⌋ lceil ⌈ rceil ⌉ lbrace { rbrace } { { } } lbrack [ rbrack ] ulcorner ⌜ urcorner ⌝
  llbracket ⟦ rrbracket ⟧ lgroup ⟮ rgroup ⟯`);

/* Operators with limits above and below in display style, beside in inline style. */
const TEX_BIG = symbolTable(`
  sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀
  biguplus ⨄ bigsqcup ⨆`);
const TEX_INTEGRALS = symbolTable(`
  int ∫ iint ∬ iiint ∭ iiiint ⨌ oint ∮ oiint ∯ oiiint ∰ smallint ∫`);

const TEX_FUNCTIONS = new Set(`sin cos tan cot sec csc sinh cosh tanh coth sech csch arcsin arccos
  arctan arccot arcsec arccsc arsinh arcosh artanh log ln lg exp deg dim hom ker arg sgn
  tr Tr rank diag erf softmax sigmoid ReLU Var Cov`.split(/\s+/));
const TEX_LIMIT_FUNCTIONS = new Map([["limsup", "lim sup"], ["liminf", "lim inf"],
  ["argmax", "arg max"], ["argmin", "arg min"], ...("lim max min sup inf det gcd lcm Pr injlim " +
    "projlim").split(" ").map((name) => [name, name])]);

/* Over or under their argument; [character, whether it stretches]. */
const TEX_ACCENTS = new Map(Object.entries({ hat: ["^"], widehat: ["^", true], check: ["ˇ"],
  tilde: ["~"], widetilde: ["~", true], acute: ["´"], grave: ["`"], dot: ["˙"], ddot: ["¨"],
  dddot: ["⃛"], breve: ["˘"], bar: ["¯"], vec: ["→"], mathring: ["˚"], overline: ["‾", true],
  overrightarrow: ["→", true], overleftarrow: ["←", true], overleftrightarrow: ["↔", true],
  overbrace: ["⏞", true], overbracket: ["⎴", true], overparen: ["⏜", true] }));
const TEX_ACCENTS_UNDER = new Map(Object.entries({ underline: ["_", true],
  underbrace: ["⏟", true], underbracket: ["⎵", true], underparen: ["⏝", true],
  underrightarrow: ["→", true], underleftarrow: ["←", true] }));
const TEX_ARROWS = new Map(Object.entries({ xrightarrow: "→", xleftarrow: "←",
  xleftrightarrow: "↔", xRightarrow: "⇒", xLeftarrow: "⇐", xLeftrightarrow: "⇔", xmapsto: "↦",
  xhookrightarrow: "↪", xrightleftharpoons: "⇌", xlongequal: "=" }));

/* Widths in em. */
const TEX_SPACES = new Map(Object.entries({ ",": 0.167, thinspace: 0.167, ":": 0.222, ">": 0.222,
  medspace: 0.222, ";": 0.278, thickspace: 0.278, "!": -0.167, negthinspace: -0.167, " ": 0.25,
  "\n": 0.25, space: 0.25, nobreakspace: 0.25, enspace: 0.5, enskip: 0.5, quad: 1, qquad: 2 }));

/* Commands without a visible effect here. */
const TEX_IGNORED = new Set(`nonumber notag displaylimits allowbreak nobreak relax hfill
  null mathstrut strut protect centering boldmath unboldmath tiny scriptsize footnotesize small
  normalsize large Large LARGE huge Huge`.split(/\s+/));

/* The fonts of Unicode's mathematical alphanumerics: the first code point of A, a, 0, Alpha,
 * alpha; the letters in `other` were encoded before these blocks. */
const TEX_FONTS = {
  bold: { A: 0x1d400, a: 0x1d41a, 0: 0x1d7ce, Α: 0x1d6a8, α: 0x1d6c2 },
  bolditalic: { A: 0x1d468, a: 0x1d482, 0: 0x1d7ce, Α: 0x1d71c, α: 0x1d736 },
  doublestruck: { A: 0x1d538, a: 0x1d552, 0: 0x1d7d8,
    other: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" } },
  script: { A: 0x1d49c, a: 0x1d4b6, other: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ",
    M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" } },
  fraktur: { A: 0x1d504, a: 0x1d51e, other: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" } },
  sans: { A: 0x1d5a0, a: 0x1d5ba, 0: 0x1d7e2 },
  mono: { A: 0x1d670, a: 0x1d68a, 0: 0x1d7f6 },
  normal: {},
};
const TEX_FONT_COMMANDS = new Map(Object.entries({ mathbf: "bold", bold: "bold",
  mathbb: "doublestruck", Bbb: "doublestruck", mathcal: "script", mathscr: "script", cal: "script",
  mathfrak: "fraktur", frak: "fraktur", mathsf: "sans", mathtt: "mono",
  boldsymbol: "bolditalic", bm: "bolditalic", pmb: "bolditalic", mathrm: "normal", mathup: "normal",
  mathnormal: "", mathit: "" }));
/* Old commands that change the rest of their group. */
const TEX_FONT_SWITCHES = new Map([["bf", "bold"], ["rm", "normal"], ["it", ""], ["sf", "sans"],
  ["tt", "mono"]]);
const TEX_STYLE_SWITCHES = new Map([["displaystyle", ["true", "0"]], ["textstyle", ["false", "0"]],
  ["scriptstyle", ["false", "1"]], ["scriptscriptstyle", ["false", "2"]]]);
